"""A permutation as Parquet: columns `index` (int64) and `batch` (int32)."""

from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.files import one_line, shown
from gcbs_cli.plan_file.messages import wrong_length
from gcbs_cli.system.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa


_NAMED_COLUMNS = 10
"""How many of a file's columns a message names."""


def write(file: BinaryIO, perm: NDArray[np.int64], batch_size: int) -> None:
    """Write each position's row and the number of its batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batch = (np.arange(len(perm)) // batch_size).astype(np.int32)
    pq.write_table(pa.table({"index": perm, "batch": batch}), file, use_dictionary=["batch"])


def read(file: BinaryIO, source: str, rows: int | None) -> NDArray[np.int64]:
    """Read the column `index`. Raises BadInput when it is missing, of another type or has nulls."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parquet = pq.ParquetFile(file)
        _check_schema(parquet.schema_arrow, source)
        found = parquet.metadata.num_rows
        if rows is not None and found != rows:
            raise wrong_length(source, found, rows)
        column: Any = parquet.read(columns=["index"]).column("index")
    except BadInput:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise BadInput(f"{source}: not a Parquet file, or damaged: {one_line(error)}") from error
    if column.null_count:
        raise BadInput(f"{source}: column index has {column.null_count} nulls; a plan holds each row once")
    return np.array(column.to_numpy(), dtype=np.int64)


def _check_schema(schema: "pa.Schema", source: str) -> None:
    import pyarrow as pa

    places = schema.get_all_field_indices("index")
    if len(places) != 1:
        names = ", ".join(shown(name[:40]) for name in schema.names[:_NAMED_COLUMNS]) or "none"
        raise BadInput(f"{source}: expected one column named index, found the columns {names}")
    if schema.field(places[0]).type != pa.int64():
        raise BadInput(f"{source}: expected column index of int64, got {schema.field(places[0]).type}")
