"""What is known of a threshold that was estimated."""

from dataclasses import dataclass
from enum import StrEnum

from gcbs_cli.system.errors import BadInput


class QuantileMethod(StrEnum):
    """How the threshold is found (DESIGN, definitions)."""

    SAMPLE = "sample"
    CHUNKS = "chunks"
    EXACT = "exact"


@dataclass(frozen=True)
class QuantileEstimate:
    """A threshold and what is known of it.

    `threshold`: t; `requested`: q; `low`, `high`: 95 % interval for the achieved q, the share of entries at or below t;
    `sample_rows`: rows (and as many columns) that were drawn, 0 where all entries were read.
    """

    method: QuantileMethod
    threshold: float
    requested: float
    low: float
    high: float
    sample_rows: int


def check_quantile(quantile: float) -> None:
    """Raises BadInput unless 0 < q < 1."""
    if not 0.0 < quantile < 1.0:
        raise BadInput(f"--quantile {quantile}: expected a number between 0 and 1, such as 0.999")
