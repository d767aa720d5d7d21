"""The report as others read it: `gcbs report --json`, one object for each loss, batch size and temperature.

The models are made from `FIGURES`. Losses, gaps and bounds are in nats, those of the triplet loss in similarity.
Older reports are read too: a figure that they lack is None, one that is no longer known is passed over.
"""

from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from gcbs_cli.reports.figures import FIGURES, nest


class ReportPart(BaseModel):
    """Frozen; unknown keys are those of another version."""

    # `global_` is written and read as `global`, which Python keeps for itself.
    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        extra="ignore",
        alias_generator=lambda name: name.rstrip("_"),
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        """Older reports have null in place of a whole part."""
        return (
            {name: value for name, value in values.items() if value is not None} if isinstance(values, dict) else values
        )


class Estimate(ReportPart):
    """A figure from a sample, and the interval that covers the figure of all rows in 95 of 100 samples."""

    value: float
    low: float
    high: float


class _Settings(ReportPart):
    """What a report is of."""

    n: int
    dim: int
    batch_size: int
    temperature: float
    loss_kind: str

    @property
    def unit(self) -> str:
        """What losses and gaps are measured in."""
        return "similarity" if self.loss_kind == "triplet" else "nats"

    def at(self, path: str) -> Any:
        """The value of the figure with this path, None where there is none."""
        found: Any = self
        for name in path.split("."):
            found = getattr(found, _field(name))
        return found


def _field(name: str) -> str:
    return name + "_" * iskeyword(name)


def _model(name: str, base: type[ReportPart], tree: dict[str, Any]) -> Any:
    """A model with a field for each figure and a model for each part of the tree."""
    fields: dict[str, Any] = {}
    for key, below in tree.items():
        if isinstance(below, dict):
            part = _model(name + key.title().replace("_", ""), ReportPart, below)
            fields[_field(key)] = (part, part())
        else:
            fields[_field(key)] = (int | float | Estimate | None, None)
    return create_model(name, __base__=base, **fields)


if TYPE_CHECKING:

    class _Figures(_Settings):
        def __getattr__(self, name: str) -> Any: ...

else:
    _Figures = _model("Figures", _Settings, nest({figure.path: figure for figure in FIGURES}))


class GapReport(_Figures):
    """One report: a loss, a batch size, a temperature. Figures of a plan are None without one."""

    timings: dict[str, float] = Field(default_factory=dict)


class SampledReport(GapReport):
    """The same from `rows` rows in `batches` whole batches, with intervals; what a sample cannot tell is None."""

    sampled: Literal[True] = True
    rows: int
    batches: int
    confidence: float = 0.95


class GapReports(ReportPart):
    """Several reports: the same data and plan at several losses, temperatures or batch sizes."""

    results: list[GapReport]
