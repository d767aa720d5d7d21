#!/usr/bin/env bash
# One plan an epoch, with a trainer that knows nothing of gcbs: encode, plan, report, train; stops at the first failure.
#   epoch_loop.sh FOLDER EPOCHS ENCODE TRAIN
# ENCODE and TRAIN are commands. `ENCODE FOLDER` writes FOLDER/x.npy and FOLDER/y.npy from the current model;
# `TRAIN FOLDER PERM EPOCH` trains one epoch on batches cut from PERM in order.
set -euo pipefail

folder=$1 epochs=$2 encode=$3 train=$4
batch_size=${BATCH_SIZE:-32}

for ((epoch = 0; epoch < epochs; epoch++)); do
    perm=$folder/perm-$epoch.npy
    $encode "$folder"
    gcbs plan "$folder/x.npy" "$folder/y.npy" --preset train -o "$perm" -k "$batch_size" --quiet --force
    gcbs report "$folder/x.npy" "$folder/y.npy" -p "$perm" --json |
        python3 -c '
import json, sys
report = json.load(sys.stdin)
loss, gap = report["loss"], report["gap"]
figures = loss["global"], loss["plan"], gap["plan"], gap["reduction"] or 0.0
print("epoch {}: L_global {:.4f}, L_train {:.4f}, gap {:.4f}, reduction {:.4f}".format(sys.argv[1], *figures))
' "$epoch"
    $train "$folder" "$perm" "$epoch"
done
