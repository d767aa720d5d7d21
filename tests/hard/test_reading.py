"""Reading large files takes little more memory than a block of their rows."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedding_files import fixed_lists, write_npy, write_safetensors
from running import run_python

MEGABYTE = 1024 * 1024
BLOCK = 8 * MEGABYTE
SCRIPT = """
import sys
import pyarrow.parquet
from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.reading import UnitRowBlocks

def peak():  # getrusage would give the peak of the process that started this one
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))

x, y = open_pair(sys.argv[1], sys.argv[1], x_column=sys.argv[2] or None, y_column=sys.argv[2] or None)
before = peak()
rows = 0
for block in x.blocks(8 * 1024 * 1024 // (4 * x.dim)):
    rows += len(block)
    del block
assert rows == x.rows
grown = peak() - before
UnitRowBlocks(x).read()
print(grown, peak() - before)
"""


@pytest.mark.parametrize(("suffix", "blocks"), [("npy", 1.5), ("safetensors", 1.5), ("parquet", 3)])
def test_reading_100_megabytes_takes_little_more_than_a_block(tmp_path, suffix, blocks):
    size = 100 * MEGABYTE
    path = tmp_path / f"x.{suffix}"
    dim = 512
    matrix = np.ones((size // (4 * dim), dim), dtype=np.float32)
    if suffix == "parquet":
        column = fixed_lists(matrix)
        options = {"use_dictionary": False, "compression": "none", "row_group_size": len(matrix)}
        pq.write_table(pa.table({"x": column}), path, **options)
    elif suffix == "safetensors":
        write_safetensors(path, x=matrix)
    else:
        write_npy(path, matrix)
    del matrix
    output = run_python(SCRIPT, path, "" if suffix == "npy" else "x", OMP_NUM_THREADS=2)
    grown, grown_with_result = (int(kibibytes) * 1024 for kibibytes in output.split())
    assert os.path.getsize(path) >= size
    assert grown < blocks * BLOCK, f"{grown / MEGABYTE:.0f} MB"
    work_buffers = 12 * MEGABYTE  # of threads, which keep what they freed
    assert size < grown_with_result < size + blocks * BLOCK + work_buffers, f"{grown_with_result / MEGABYTE:.0f} MB"
