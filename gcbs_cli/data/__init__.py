"""Opens paired embeddings (one file a format), checks them, and reads them as canonical unit rows."""

from gcbs_cli.data.opening import from_array as from_array
from gcbs_cli.data.opening import open_pair as open_pair
from gcbs_cli.data.reading import PairStream as PairStream
from gcbs_cli.data.reading import UnitRows as UnitRows
from gcbs_cli.data.reading import read_unit_rows as read_unit_rows
