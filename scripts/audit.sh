#!/usr/bin/env bash
# Compares every pinned package with the databases of known vulnerabilities. Needs pip-audit, and a network that reaches
# the vulnerability service that pip-audit asks.
#   scripts/audit.sh [PIP-AUDIT ARGUMENTS...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
"$python" -m pip_audit --version >/dev/null 2>&1 || {
    echo "needs pip-audit: $python -m pip install pip-audit" >&2
    exit 2
}
# Every package is pinned with its hash, so nothing needs to be resolved or installed.
exec "$python" -m pip_audit --requirement requirements.lock --require-hashes --disable-pip "$@"
