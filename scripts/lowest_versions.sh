#!/usr/bin/env bash
# Installs the lowest version of every dependency that pyproject.toml allows into a fresh folder and runs the quick
# tests with it. torch alone comes by its pin in constraints.txt: older builds need a processor's or driver's luck.
#   scripts/lowest_versions.sh [FOLDER] [PYTEST ARGUMENTS...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-.lowest}
shift || true
python=${PYTHON:-python3}

"$python" -m venv --clear "$folder"
"$python" - > "$folder/lowest.txt" <<'PY'
import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
wanted = [*project["dependencies"], *project["optional-dependencies"]["metis"]]
pinned = [line for line in Path("constraints.txt").read_text().splitlines() if line.startswith("torch==")]
for requirement in wanted:
    name, lowest = re.fullmatch(r"([A-Za-z0-9_-]+)>=([0-9.]+)[^;]*", requirement).groups()
    print(pinned[0] if name == "torch" else f"{name}=={lowest}")
PY
sort "$folder/lowest.txt"
install=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check)
"${install[@]}" -r "$folder/lowest.txt"
"${install[@]}" hatchling editables pytest pytest-xdist hypothesis ml-dtypes -c "$folder/lowest.txt"
"${install[@]}" --no-build-isolation --no-deps --editable .
if [ $# -eq 0 ]; then
    set -- tests/data tests/plan_file tests/graph tests/cli tests/orders tests/reports -n auto -q
fi
"$folder/bin/python" -m pytest "$@"
