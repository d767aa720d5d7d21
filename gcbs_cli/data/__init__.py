"""Opens paired embeddings (one file a format), checks them, and reads them as canonical unit rows."""

from gcbs_cli.data.arrays import from_array
from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.reading import PairStream, UnitRows, read_unit_rows
from gcbs_cli.data.source import EmbeddingSource, check_pair

__all__ = [
    "EmbeddingSource",
    "PairStream",
    "UnitRows",
    "check_pair",
    "from_array",
    "open_pair",
    "read_unit_rows",
]
