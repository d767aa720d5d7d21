"""How many parts, and what a partitioned plan cannot do."""

from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput

AUTO = "auto"
AUTO_PART_ROWS = 1 << 17
"""Rows of a part where no number is asked for: its pass takes seconds to minutes, its graph some hundred megabytes."""
BYTES_PER_ROW_OF_PART = 8 * 1024
"""Of memory asked for with --max-memory that `auto` allows a row of a part, beside its embeddings: edges and lists."""
MOST_PARTS = 4096
"""The centres of more could not be learnt from a sample of 65,536 rows."""


def parse_partitions(text: str) -> int | None:
    """The number of parts; None for `auto`. Raises BadInput for anything else."""
    if text == AUTO:
        return None
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MOST_PARTS:
        raise BadInput(f"--partitions {text}: expected auto or a number from 1 to {MOST_PARTS:,}")
    return int(text)


def choose_parts(asked: int | None, rows: int, dim: int, settings: PlanSettings) -> int:
    """The number of parts; None asks for parts of at most 131,072 rows, fewer where --max-memory leaves less.

    Raises BadInput where the rows do not give each part a batch.
    """
    batches = rows // settings.batch_size
    if asked is None:
        part = AUTO_PART_ROWS
        if settings.work.max_memory is not None:
            part = min(part, settings.work.max_memory // (BYTES_PER_ROW_OF_PART + 8 * dim))
        asked = min(-(-rows // max(part, settings.batch_size)), batches, MOST_PARTS)
    if asked > batches:
        raise BadInput(
            f"--partitions {asked:,}: the {rows:,} rows make {batches:,} batches of {settings.batch_size}, fewer than "
            "one for each part; ask for fewer parts"
        )
    return asked


def check_settings(settings: PlanSettings) -> None:
    """Raises BadInput for what needs all rows at once."""
    if settings.time_limit is not None:
        raise BadInput("--time-limit: the plan would depend on the time that each part gets; not with --partitions")
