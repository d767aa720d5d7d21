#!/usr/bin/env bash
# Make the pictures of README and docs: the page of the demo in Chromium. Usage: scripts/screenshots.sh [FOLDER]
set -euo pipefail
folder=$(realpath "${1:-docs}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
gcbs demo -q
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-background-networking \
  --user-data-dir="$work/profile" --window-size=1280,1900 --screenshot="$folder/report.png" \
  "file://$work/gcbs-demo/report.html"
