#!/usr/bin/env bash
# Prove and time the GPU path on a machine with a GPU, in two calls of at most ten minutes each:
#   scripts/gpu_check.sh plans OUT [WHEELS]   tests of the torch path on the GPU, and the same plan on GPU and CPU
#   scripts/gpu_check.sh speed OUT [WHEELS]   benchmarks/scaling.py at 100,000, 500,000 and 1,000,000 rows
# It needs Python 3.11 or newer with torch, numpy, scipy, numba, pyarrow, rich, xxhash, safetensors, threadpoolctl, jinja2
# and pytest, and no network: what else is missing there comes as wheels from WHEELS, fetched beforehand with
#   pip download -d WHEELS --python-version 3.12 --only-binary :all: pydantic 'typer>=0.29' hypothesis
set -euo pipefail
step=${1:?plans or speed} out=${2:?a folder for the output} wheels=${3:-}
mkdir -p "$out"
out=$(cd "$out" && pwd)
[ -z "$wheels" ] || wheels=$(cd "$wheels" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
export PYTHONPATH=$PWD PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
if [ -n "$wheels" ]; then
    packages=$(mktemp -d)
    trap 'rm -rf "$packages"' EXIT
    "$python" -m pip install --quiet --no-index --no-deps --target "$packages" "$wheels"/*.whl
    PYTHONPATH=$PYTHONPATH:$packages
fi
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
    { echo "scripts/gpu_check.sh: torch finds no GPU here" >&2; exit 1; }
case $step in
plans)
    "$python" -m pytest -q tests/products/test_torch_device.py tests/hard/test_gpus.py 2>&1 | tee "$out/tests.txt"
    for device in cpu cuda; do
        "$python" -m gcbs_cli plan sample_data/x.npy sample_data/y.npy --device $device -o "$out/$device.npy" --force
        "$python" -m gcbs_cli plan sample_data/x.npy sample_data/y.npy --device $device --preset train \
            -o "$out/$device-train.npy" --force
    done
    cmp "$out/cpu.npy" "$out/cuda.npy"
    cmp "$out/cpu-train.npy" "$out/cuda-train.npy"
    echo "the same plans on CPU and GPU"
    ;;
speed)
    "$python" benchmarks/scaling.py --device cuda --rows 100000 500000 1000000 --rounds 2 2>&1 | tee "$out/scaling.txt"
    ;;
*)
    echo "scripts/gpu_check.sh: $step: expected plans or speed" >&2
    exit 2
    ;;
esac
