"""webdataset: write shards of whole batches from lines in plan order, and read them back."""

import json
import sys
from pathlib import Path

import webdataset
from toy_pairs import BATCH

lines, folder = Path(sys.argv[1]).read_text().splitlines(), Path(sys.argv[2])
with webdataset.ShardWriter(str(folder / "pairs-%06d.tar"), maxcount=2 * BATCH, verbose=0) as writer:
    for place, line in enumerate(lines):
        writer.write({"__key__": f"{place:06d}", "json": json.loads(line)})
shards = sorted(map(str, folder.glob("*.tar")))
stream = webdataset.WebDataset(shards, shardshuffle=False).decode().to_tuple("json").batched(BATCH, partial=True)
(folder / "batches.json").write_text(json.dumps([[sample["row"] for sample in batch[0]] for batch in stream]))
