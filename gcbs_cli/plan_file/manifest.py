"""The manifest beside a permutation: what it was made from and how, `PERM.manifest.json`."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from gcbs_cli.data.files import open_file, shown
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.writing import MANIFEST_END
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput


class _Record(BaseModel):
    """Frozen; fields that a newer minor version adds are passed over."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, validate_by_name=True, serialize_by_alias=True)


class InputRecord(_Record):
    """One side of the pairs: where it was read from and what it was. column: None where a file is one matrix."""

    paths: list[str]
    name: str
    rows: NonNegativeInt
    dim: NonNegativeInt
    dtype: str
    fingerprint: str
    column: str | None = None


class InputsRecord(_Record):
    """Both sides; a file that holds both appears twice, with the name of its column."""

    x: InputRecord
    y: InputRecord

    @classmethod
    def of(cls, stream: PairStream) -> "InputsRecord":
        """Record what was read."""
        names = set(InputRecord.model_fields) - {"fingerprint"}
        x, y = (
            InputRecord(fingerprint=fingerprint, **{name: getattr(source, name) for name in names})
            for source, fingerprint in zip(stream.sources, stream.fingerprints, strict=True)
        )
        return cls(x=x, y=y)


class QuantileRecord(_Record):
    """How the threshold was found. number: t in the grid's whole numbers; interval: that of the achieved quantile."""

    method: str
    requested: float | None = None
    per_row: float | None = None
    threshold: float | None = None
    number: int | None = None
    achieved: float | None = None
    interval: tuple[float, float] | None = None
    sampled_rows: int | None = None


class GraphRecord(_Record):
    """`isolated`: rows without an edge; `max_degree`: edges of the row that has most.

    kind: what made the edges, `quantile` or `top-m` (then `top`: hardest a row); rank_window: p:m, if one was set.
    """

    edges: NonNegativeInt
    isolated: NonNegativeInt
    max_degree: NonNegativeInt
    kind: str = "quantile"
    top: int | None = None
    rank_window: tuple[int, int] | None = None


class PartitionsRecord(_Record):
    """A plan in parts: number and sizes (rows) in plan order, each one's threshold, and all their graphs together."""

    parts: PositiveInt
    sizes: list[PositiveInt]
    thresholds: list[float] | None = None
    edges: NonNegativeInt = 0
    isolated: NonNegativeInt = 0
    in_batch_edge_share: float | None = None


class Manifest(_Record):
    """The file: a permutation's hash, its inputs, the settings and what came of them. Timings are seconds.

    world_size: number of ranks that will train on it; gather: their loss gathers, so each takes k/W of a batch.
    """

    schema_name: Literal["gcbs.manifest"] = Field(default="gcbs.manifest", alias="schema")
    schema_version: str = Field(default="1.0", pattern="^1[.]")  # raised where an old reader would misunderstand
    tool_version: str
    command: list[str]
    created: str
    inputs: InputsRecord
    rows: PositiveInt
    batch_size: PositiveInt
    method: str
    permutation_hash: str
    method_settings: dict[str, Any] = {}
    temperature: float | None = None
    seed: int | None = None
    quantile: QuantileRecord | None = None
    graph: GraphRecord | None = None
    bandwidth: dict[str, float | None] = {}
    profile: dict[str, float | None] = {}
    in_batch_edge_share: dict[str, float | None] = {}
    device: str = "cpu"
    timings: dict[str, float] = {}
    libraries: dict[str, str] = {}
    drop_last: bool = False
    normalize: bool = True
    world_size: PositiveInt | None = None
    gather: bool = False
    partitions: PartitionsRecord | None = None

    def is_of(self, perm: Ints) -> bool:
        """Whether this is the manifest of this very permutation, by its hash."""
        return permutation_hash(perm) == self.permutation_hash

    def is_from(self, fingerprints: tuple[str, str]) -> bool:
        """Whether the plan was made from this very data, by content hash."""
        return (self.inputs.x.fingerprint, self.inputs.y.fingerprint) == fingerprints


def manifest_path(perm_path: Path | str) -> Path:
    """`perm.npy` → `perm.npy.manifest.json`."""
    return Path(f"{perm_path}{MANIFEST_END}")


def permutation_hash(perm: Ints) -> str:
    """Return the same for the same order, whatever the file's format: xxh3 (128 bits) of the little-endian int64."""
    return "xxh3:" + xxhash.xxh3_128_hexdigest(np.ascontiguousarray(perm, dtype="<i8").data)


def read_manifest(perm_path: Path | str) -> Manifest | None:
    """The manifest beside the permutation at `perm_path`; None where there is none, as for `-`.

    Raises BadInput when it is damaged, is no manifest, or comes from a newer major version of the schema.
    """
    path = manifest_path(perm_path)
    if not os.path.lexists(path):
        return None
    with open_file(str(path)) as file:
        try:
            return Manifest.model_validate_json(file.read())
        except ValidationError as error:
            # Errors come in the order of the fields: another version is named before what else it changed.
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise BadInput(
                f"{shown(str(path))}: cannot be read as a gcbs manifest: {place}: {first['msg']}; plan again, or"
                " upgrade gcbs if a newer one wrote it"
            ) from error
