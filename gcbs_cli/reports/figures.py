"""From what was measured to the figures of `reports.schema`."""

from math import log
from typing import Any

import numpy as np

from gcbs_cli.graph.measures import OrderMeasures, measure_order
from gcbs_cli.products.backend import FLOAT32_UNIT_ROUNDOFF
from gcbs_cli.reports.basis import Basis
from gcbs_cli.reports.held_apart import held_apart
from gcbs_cli.reports.losses import AllKeys, Loss, LossValues, oracle_gap
from gcbs_cli.reports.measured import Measured
from gcbs_cli.reports.orders import MeasuredOrder
from gcbs_cli.reports.partition_cost import partition_cost
from gcbs_cli.reports.schema import (
    Bounds,
    EdgeShare,
    FalseNegatives,
    GapFigures,
    GapReport,
    GraphPart,
    HeldApart,
    LossFigures,
    MaskedGap,
    OrderFigures,
    PartitionCost,
    PositiveProbability,
    Uniformity,
)


def reports_of(basis: Basis, measured: Measured) -> list[GapReport]:
    """A report for each temperature."""
    identity = measure_order(basis.graph, np.arange(basis.pair.rows), measured.batch_size)
    return [_combine(basis, measured, keys, number, identity) for number, keys in enumerate(measured.keys)]


def _combine(basis: Basis, measured: Measured, keys: AllKeys, number: int, identity: OrderMeasures) -> GapReport:
    loss, batch_size, trials, plan = measured.loss, measured.batch_size, measured.random, measured.plan
    temperature = basis.settings.temperatures[number]
    planned = plan.values[number] if plan else None
    own = basis.terms.get(loss)
    everything = (
        own.everything(keys, temperature) if own else float((keys.log_sums - basis.diagonal / temperature).mean())
    )
    probability = float(np.exp(basis.diagonal / temperature - keys.log_sums).mean())
    return GapReport(
        n=basis.pair.rows,
        dim=basis.pair.dim,
        batch_size=batch_size,
        temperature=temperature,
        loss_kind=loss.name,
        loss=LossFigures(
            global_=planned.global_loss if planned else everything,
            plan=planned.train_loss if planned else None,
            random_mean=float(np.mean([trial.values[number].train_loss for trial in trials])),
            random_std=_deviation([trial.values[number].train_loss for trial in trials]),
        ),
        gap=_gap_figures(basis, keys, loss, batch_size, number, trials, planned),
        bounds=Bounds(
            translation=planned.translation_bound if planned else None,
            logsumexp=planned.logsumexp_bound if planned else None,
        ),
        positive_probability=PositiveProbability(
            global_=probability,
            plan=planned.positive_probability if planned else None,
            random=float(np.mean([trial.values[number].positive_probability for trial in trials])),
        ),
        **_graph_figures(basis, trials, plan, identity),
        alignment=basis.alignment,
        uniformity=Uniformity(x=basis.uniformity[0], y=basis.uniformity[1]),
        mutual_information_bound=log(batch_size) - planned.train_loss
        if planned and (own is None or own.in_nats)
        else None,
        cross_check=measured.checks[number] if measured.checks else None,
        partitions=_partition_cost(basis, measured, number),
        timings=dict(basis.clock.seconds),
    )


def _partition_cost(basis: Basis, measured: Measured, number: int) -> PartitionCost | None:
    parts, plan, one_graph = basis.settings.parts, measured.plan, measured.one_graph
    if parts is None or plan is None or measured.perm is None:
        return None
    random = float(np.mean([trial.values[number].gap for trial in measured.random]))
    temperature = basis.settings.temperatures[number]
    return partition_cost(
        parts,
        basis.graph,
        measured.perm,
        _reduction(plan.values[number].gap, random, temperature),
        _reduction(one_graph.values[number].gap, random, temperature) if one_graph else None,
    )


def _gap_figures(
    basis: Basis,
    keys: AllKeys,
    loss: Loss,
    batch_size: int,
    number: int,
    trials: list[MeasuredOrder],
    planned: LossValues | None,
) -> GapFigures:
    temperature = basis.settings.temperatures[number]
    gaps = [trial.values[number].gap for trial in trials]
    random = float(np.mean(gaps))
    masked_random = float(np.mean([trial.values[number].masked_gap for trial in trials]))
    own, negatives = basis.terms.get(loss), loss.oracle_negatives(basis.pair.rows, batch_size)
    oracle = own.oracle(keys, negatives, temperature) if own else oracle_gap(keys, negatives, temperature)
    comparable = own is None or own.comparable
    gap = planned.gap if planned else None
    masked = planned.masked_gap if planned else None
    return GapFigures(
        plan=gap,
        random_mean=random,
        random_std=_deviation(gaps),
        oracle=oracle,
        reduction=_reduction(gap, random, temperature),
        closed_share=None if gap is None or not comparable else _ratio(random - gap, random - oracle, temperature),
        masked=MaskedGap(
            plan=masked, random_mean=masked_random, reduction=_reduction(masked, masked_random, temperature)
        ),
    )


def _graph_figures(
    basis: Basis, trials: list[MeasuredOrder], plan: MeasuredOrder | None, identity: OrderMeasures
) -> dict[str, Any]:
    measures = [trial.measures for trial in trials]
    shares = [m.in_batch_edge_share for m in measures if m.in_batch_edge_share is not None]
    degrees = basis.graph.degrees
    return {
        "graph": GraphPart(
            threshold=basis.threshold.value,
            quantile=basis.achieved_quantile,
            edges=basis.graph.edges,
            isolated=int(np.count_nonzero(degrees == 0)),
            max_degree=int(degrees.max()),
        ),
        "bandwidth": OrderFigures(
            identity=identity.bandwidth,
            random=float(np.mean([m.bandwidth for m in measures])),
            plan=plan.measures.bandwidth if plan else None,
        ),
        "profile": OrderFigures(
            identity=identity.profile,
            random=float(np.mean([m.profile for m in measures])),
            plan=plan.measures.profile if plan else None,
        ),
        "in_batch_edge_share": EdgeShare(
            random=float(np.mean(shares)) if shares else None,
            plan=plan.measures.in_batch_edge_share if plan else None,
        ),
        "false_negatives": FalseNegatives(
            suspected_pairs=len(plan.suspects) if plan else None,
            random=float(np.mean([len(trial.suspects) for trial in trials])),
            rows=plan.suspects.rows() if plan else None,
            top_ranks=basis.settings.fn_top or None,
            **_held_apart(basis, trials, plan),
        ),
    }


def _held_apart(basis: Basis, trials: list[MeasuredOrder], plan: MeasuredOrder | None) -> dict[str, HeldApart | None]:
    everything = basis.to_hold_apart.inside(np.zeros(basis.pair.rows, np.int64))
    inside = [trial.held_apart for trial in trials]
    planned = plan.held_apart if plan else None
    return {name: held_apart(name, everything, planned, inside) for name in ("top", "duplicates")}


def _ratio(part: float, whole: float, temperature: float) -> float | None:
    """part / whole; None where the whole is nothing but the rounding of float32 similarities."""
    return None if abs(whole) <= max(1e-9, FLOAT32_UNIT_ROUNDOFF / temperature) else part / whole


def _reduction(plan: float | None, random: float, temperature: float) -> float | None:
    share = None if plan is None else _ratio(plan, random, temperature)
    return None if share is None else 1.0 - share


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
