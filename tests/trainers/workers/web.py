"""webdataset: write shards of whole batches from lines in plan order, and read them back, with workers and by ranks."""

import json
import os
import sys
from pathlib import Path

import webdataset
from toy_pairs import BATCH

SHARD_BATCHES = 2


def read(shards, workers=0, **settings):
    stream = webdataset.WebDataset(shards, shardshuffle=False, **settings).decode().to_tuple("json")
    loader = webdataset.WebLoader(stream.batched(BATCH, partial=True), batch_size=None, num_workers=workers)
    return [[sample["row"] for sample in batch[0]] for batch in loader]


def read_as(rank, shards):
    """As this rank of two, which webdataset looks for in the launcher's environment."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    return read(shards, nodesplitter=webdataset.split_by_node)


lines, folder = Path(sys.argv[1]).read_text().splitlines(), Path(sys.argv[2])
with webdataset.ShardWriter(str(folder / "pairs-%06d.tar"), maxcount=SHARD_BATCHES * BATCH, verbose=0) as writer:
    for place, line in enumerate(lines):
        writer.write({"__key__": f"{place:06d}", "json": json.loads(line)})
shards = sorted(map(str, folder.glob("*.tar")))
found = {"alone": read(shards), "workers": read(shards, workers=2), "ranks": [read_as(rank, shards) for rank in (0, 1)]}
(folder / "batches.json").write_text(json.dumps(found))
