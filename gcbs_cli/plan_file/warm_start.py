"""What a plan of an earlier epoch gives the next one: the threshold that its manifest holds."""

from dataclasses import dataclass
from pathlib import Path

from gcbs_cli.plan_file.manifest import manifest_path, parse_manifest
from gcbs_cli.system.errors import BadInput

SUFFIX = ".manifest.json"
MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class EarlierPlan:
    """The threshold of an earlier plan, and the hash of its permutation."""

    threshold: float
    permutation_hash: str


def read_earlier_plan(path: Path) -> EarlierPlan:
    """What the manifest of a permutation, or a manifest itself, says; raises BadInput where it names no threshold."""
    source = path if path.name.endswith(SUFFIX) else manifest_path(path)
    try:
        with source.open("rb") as file:
            data = file.read(MOST_BYTES)
    except OSError as error:
        raise BadInput(f"--warm-start {path}: {source} cannot be read: {error.strerror or error}") from error
    # The last entry is the newest where a save was cut short.
    entry = next(reversed(parse_manifest(data, str(source)).entries), None)
    if entry is None or entry.quantile is None or entry.quantile.threshold is None:
        raise BadInput(f"--warm-start {path}: its plan has no threshold to begin with; give a plan made from a graph")
    return EarlierPlan(entry.quantile.threshold, entry.permutation_hash)
