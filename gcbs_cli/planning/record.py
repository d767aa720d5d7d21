"""What a manifest says of a plan."""

from datetime import UTC, datetime
from typing import Any

from gcbs_cli import __version__
from gcbs_cli.data.files import shown
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.manifest import (
    GraphRecord,
    InputsRecord,
    Manifest,
    QuantileRecord,
    permutation_hash,
)
from gcbs_cli.planning.plan import PlanResult
from gcbs_cli.settings.model import Settings, leaves
from gcbs_cli.settings.plan import BatchOrderSettings, BscSettings, FalseNegativeSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.version import installed

RECORDED_LIBRARIES = ("numpy", "scipy", "torch")
"""Libraries on which a permutation could depend."""
SETTINGS = ("batch_size", "temperature", "seed", "method", "drop_last", "world_size", "gather")
"""Settings that a manifest has under the same name."""
MEASURES = ("bandwidth", "profile", "in_batch_edge_share")
ORDERS = ("identity", "random", "plan")
"""Orders whose measures a manifest has."""


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
    graph: dict[str, Any] = {}
    if figures is not None:
        graph["graph"] = GraphRecord(
            edges=figures.edges,
            isolated=figures.isolated,
            max_degree=figures.max_degree,
            kind=settings.graph,
            top=settings.top if settings.graph == "top-m" else None,
            rank_window=settings.rank_window,
        )
        for measure in MEASURES:
            graph[measure] = {order: getattr(getattr(figures, order), measure) for order in ORDERS}
    versions = {name: installed(name) for name in RECORDED_LIBRARIES}
    return Manifest(
        tool_version=__version__,
        command=command,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        inputs=InputsRecord.of(stream),
        rows=stream.rows,
        quantile=_quantile(result, stream.rows),
        **graph,
        method_settings=_method_settings(result) | _row_files(files, groups),
        partitions=result.partitions,
        device=result.device,
        timings={**seconds, **result.seconds},
        permutation_hash=permutation_hash(result.perm),
        libraries={name: version for name, version in versions.items() if version is not None},
        normalize=stream.normalize,
        **{name: getattr(settings, name) for name in SETTINGS},
    )


def full_batches_per_rank(manifest: Manifest) -> dict[str, int]:
    """How many full batches each rank gets, where ranks were named and each takes whole batches."""
    if manifest.world_size is None or manifest.gather:
        return {}
    return {"full_batches_per_rank": manifest.rows // manifest.batch_size // manifest.world_size}


def _method_settings(result: PlanResult) -> dict[str, Any]:
    """Settings beyond the method that decided the plan, and what the refinement did."""
    settings = result.settings
    record: dict[str, Any] = {"chunk_rows": settings.chunk_rows}
    if settings.preset is not None:
        record["preset"] = settings.preset
    for leaf in leaves(BscSettings):
        if settings.lacking(leaf) is None:
            record[leaf.name] = getattr(settings, leaf.name)
    if result.refinement is not None:
        record["refinement"] = result.refinement.as_record() | {"time_limit": settings.time_limit}
    if settings.avoids:
        inside = {"too_hard_inside": result.too_hard_inside}
        record["false_negatives"] = dict(settings.only(FalseNegativeSettings)) | inside
    if settings.no_duplicates:
        record["no_duplicates"] = True
    batch_order = settings.only(BatchOrderSettings)
    if batch_order != BatchOrderSettings():
        record["batch_order"] = dict(batch_order)
    return record


def _row_files(files: tuple[Settings, ...], groups: Ints | None) -> dict[str, Any]:
    """The files of groups and texts that were named, and the hash of the groups."""
    values = {name: value for file in files if file.model_fields_set for name, value in file}
    record: dict[str, Any] = {name: value and shown(value) for name, value in values.items()}
    if groups is not None:
        record["groups_hash"] = permutation_hash(groups)
    return record


def _quantile(result: PlanResult, rows: int) -> QuantileRecord | None:
    threshold, settings, parts = result.threshold, result.settings, result.partitions
    if parts is not None and parts.thresholds is not None:
        return QuantileRecord(
            method="each part's own",
            requested=settings.requested_quantile(rows),
            per_row=settings.entries_per_row(rows),
            threshold=settings.threshold,
        )
    if threshold is None or result.figures is None:
        return None
    return QuantileRecord(
        method="given" if threshold.requested is None else settings.quantile_method,
        requested=threshold.requested,
        per_row=settings.entries_per_row(rows),
        threshold=threshold.similarity,
        number=threshold.number,
        scale=threshold.scale,
        achieved=result.figures.achieved_quantile,
        interval=threshold.interval,
        sampled_rows=threshold.sampled or None,
        sampled_columns=threshold.sampled or None,
    )
