"""Messages that several readers share."""

from gcbs_cli.system.errors import BadInput


def wrong_length(source: str, found: object, rows: int) -> BadInput:
    """The error for a permutation that is shorter or longer than the data."""
    return BadInput(f"{source}: {found} indices, but the data has {rows} rows; was the plan made for other data?")
