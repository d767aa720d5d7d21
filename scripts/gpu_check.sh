#!/usr/bin/env bash
# One step of proving and timing the GPU path, in a call of at most ten minutes; tables go to OUT as Markdown and JSON.
#   1  the machine, rates of bare products and copies, the same plan on GPU and CPU, tests/gpu, compute-sanitizer
#   2  a strip of 8,192 x 1M products in every type, and the flags
#   3  benchmarks/scaling.py at 100k, 500k and 1M rows, the first run and later ones, and a profile
#   4  5M rows: about 60 GB on the GPU (an H200's 139 GiB are ample), 30 GB of files, 50 GB of the host's memory
#   5  reports and top-m graphs at 20k, 100k and 1M rows
# It needs Python 3.12 with torch and its Triton, numpy, scipy, numba, pyarrow, rich, xxhash, safetensors, threadpoolctl,
# pytest and hypothesis, and no network: pydantic, typer and theirs come as wheels from WHEELS, fetched beforehand with
#   pip download -d WHEELS --python-version 3.12 --only-binary :all: pydantic 'typer>=0.29'
#   scripts/gpu_check.sh STEP OUT [WHEELS]
set -euo pipefail
step=${1:?which step, 1 to 5} out=${2:?a folder for the tables} wheels=${3:-}
mkdir -p "$out"
out=$(cd "$out" && pwd)
[ -z "$wheels" ] || wheels=$(cd "$wheels" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
export PYTHONPATH=$PWD
if [ -n "$wheels" ]; then
    packages=$(mktemp -d)
    trap 'rm -rf "$packages"' EXIT
    "$python" -m pip install --quiet --no-index --no-deps --target "$packages" "$wheels"/*.whl ||
        for wheel in "$wheels"/*.whl; do "$python" -m zipfile -e "$wheel" "$packages"; done
    export PYTHONPATH=$PYTHONPATH:$packages
fi
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
unset TRITON_INTERPRET
"$python" benchmarks/gpu_check.py "$step" "$out"
