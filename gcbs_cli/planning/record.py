"""What a manifest says of a plan."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from gcbs_cli import __version__
from gcbs_cli.data.files import shown
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.manifest import InputsRecord, Manifest, QuantileRecord, permutation_hash
from gcbs_cli.planning.plan import PlanResult, makes_graph
from gcbs_cli.settings.model import Settings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.version import installed

RECORDED_LIBRARIES = ("numpy", "scipy", "torch")
"""Libraries on which a permutation could depend."""
SETTINGS = ("batch_size", "temperature", "seed", "method", "drop_last", "world_size", "gather")
"""Settings that a manifest has under the same name."""
MEASURES = ("bandwidth", "profile", "in_batch_edge_share")


def plan_manifest(
    result: PlanResult,
    stream: PairStream,
    command: list[str],
    *,
    groups: Ints | None,
    files: tuple[Settings, ...],
    seconds: dict[str, float],
) -> Manifest:
    """The manifest of a plan, of one graph or of parts; files: those of groups and texts; seconds: of reading."""
    settings, figures = result.settings, result.figures
    measures: dict[str, Any] = {}
    if figures is not None:
        for name in MEASURES:
            measures[name] = {order: getattr(values, name) for order, values in figures.measures.items()}
    return Manifest(
        tool_version=__version__,
        command=command,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        inputs=InputsRecord.of(stream),
        rows=stream.rows,
        quantile=_quantile(result, stream.rows),
        graph=None if figures is None else figures.graph,
        **measures,
        method_settings=_method_settings(result, files, groups),
        partitions=result.partitions,
        device=result.device,
        timings={**seconds, **result.seconds},
        permutation_hash=permutation_hash(result.perm),
        libraries={name: version for name in RECORDED_LIBRARIES if (version := installed(name))},
        normalize=stream.normalize,
        **{name: getattr(settings, name) for name in SETTINGS},
    )


def _method_settings(result: PlanResult, files: tuple[Settings, ...], groups: Ints | None) -> dict[str, Any]:
    """All other settings and files that are not the default, the hash of the groups, and what the refinement did."""
    record = result.settings.model_dump(exclude_defaults=True, exclude=set(SETTINGS))
    for file in files:
        record |= {name: shown(value) for name, value in file.model_dump(exclude_defaults=True).items()}
    if groups is not None:
        record["groups_hash"] = permutation_hash(groups)
    if result.refinement is not None:
        record["refinement"] = asdict(result.refinement)
    return record


def _quantile(result: PlanResult, rows: int) -> QuantileRecord | None:
    """How t was found, in one graph or in each part; None without a graph."""
    threshold, settings = result.threshold, result.settings
    if not makes_graph(settings):
        return None
    record: dict[str, Any] = {
        "method": settings.quantile_method if settings.threshold is None else "given",
        "requested": settings.requested_quantile(rows),
        "per_row": settings.entries_per_row(rows),
        "threshold": settings.threshold,
    }
    if threshold is not None and result.figures is not None:
        record |= {
            "threshold": threshold.similarity,
            "number": threshold.number,
            "achieved": result.figures.achieved_quantile,
            "interval": threshold.interval,
            "sampled_rows": threshold.sampled or None,
        }
    return QuantileRecord(**record)
