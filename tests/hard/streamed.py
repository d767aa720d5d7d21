"""mosaicml-streaming: write lines in plan order as MDS, and read them back, alone or under torchrun.

streamed.py LINES INTERLEAVED FOLDER: INTERLEAVED holds the same pairs with the batches of a step dealt row by row.
"""

import itertools
import json
import os
import sys
from pathlib import Path

import torch.distributed as dist
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from toy_pairs import BATCH, ROWS, Record, leave

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
ROWS_A_SHARD = 20  # shards end within batches


def write(lines, folder, rows):
    """MDS shards of a few rows each; `rows` of them all."""
    if RANK == 0:
        with (
            open(lines) as file,
            MDSWriter(out=str(folder), columns={"row": "int64"}, size_limit=12 * ROWS_A_SHARD) as out,
        ):
            for line in itertools.islice(file, rows):
                out.write(json.loads(line))
        assert len(list(folder.glob("*.mds"))) > 2
    if RANKS > 1:
        dist.barrier()


def read(record, name, folder, batch_size, workers, **settings):
    dataset = StreamingDataset(local=str(folder), shuffle=False, batch_size=batch_size, **settings)
    loader = StreamingDataLoader(dataset, batch_size=batch_size, num_workers=workers)
    for epoch in range(2):
        for batch in loader:
            record.add(f"{name}.{epoch}", batch["row"], 0.0)


if __name__ == "__main__":
    lines, interleaved, out = sys.argv[1:]
    if RANKS > 1:
        dist.init_process_group("gloo")
    folder, record = Path(out), Record()
    write(lines, folder / "lines", ROWS)
    for workers in (0, 2):
        if RANKS == 1:
            read(record, f"alone.{workers}", folder / "lines", BATCH, workers)
            read(record, f"ahead.{workers}", folder / "lines", BATCH, workers, predownload=1)
        else:
            read(record, f"gather.{workers}", folder / "lines", BATCH // RANKS, workers, num_canonical_nodes=1)
    if RANKS > 1:
        step = RANKS * BATCH
        write(interleaved, folder / "interleaved", ROWS // step * step)
        for workers in (0, 2):
            read(record, f"whole.{workers}", folder / "interleaved", BATCH, workers, num_canonical_nodes=1)
    record.save(out, "streamed", RANK)
    leave()
