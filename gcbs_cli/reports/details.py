"""What a page shows beyond the figures of a report: trials, batches, pictures of the graph, examples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.graph.measures import batches_of
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.in_batch import hardest_in_batches
from gcbs_cli.reports.measured import Measured, random_order
from gcbs_cli.system.arrays import inverse

PICTURE_BINS = 192
"""Cells a side of a picture of the graph: a megapixel of paper is lost on a page, and N = 10⁶ fits as well."""
ZOOM_BATCHES = 12
EXAMPLES = 12


@dataclass(frozen=True)
class Density:
    """Both directions of the edges whose places lie in [start, stop), counted in (cells, cells) int64."""

    counts: NDArray[np.int64]
    start: int
    stop: int


@dataclass(frozen=True)
class Suspect:
    """One suspected false negative in a planned batch: two rows, s_ij, s_ji and the similarities to their own."""

    rows: tuple[int, int]
    batch: int
    similarities: tuple[float, float]
    own: tuple[float, float]


@dataclass(frozen=True)
class OrderDetails:
    """One order: its graph as a whole and near the middle, and each row's hardest in-batch negative (N,)."""

    density: Density
    zoom: Density
    hardest: NDArray[np.float32]


@dataclass(frozen=True)
class ReportDetails:
    """Details of the first report of a run.

    trial_losses: (trials,) L_train of the random orders. identity: the input's own order. plan, batch_losses (batches,)
    in nats, first_rows (perm cut into batches gives the rows) and suspects are there only with a plan.
    """

    trial_losses: NDArray[np.float64]
    identity: OrderDetails
    random: OrderDetails
    plan: OrderDetails | None
    perm: NDArray[np.int64] | None
    batch_losses: NDArray[np.float64] | None
    suspects: list[Suspect]


def report_details(measured: Measured) -> ReportDetails:
    """What a page shows beyond the figures."""
    inputs, perm, size = measured.inputs, measured.perm, measured.batch_size
    pair, graph = inputs.pair, inputs.graph
    suspects: list[Suspect] = []
    if perm is not None:
        batch_of_row = batches_of(perm, size, drop_last=inputs.settings.drop_last)
        inside = inputs.suspects.in_batches(batch_of_row)
        suspects = suspect_examples(pair, inside, inputs.diagonal, batch_of_row)
    return ReportDetails(
        trial_losses=np.array([trial.train_loss for trial in measured.random]),
        identity=order_details(pair, graph, np.arange(pair.rows), size),
        random=order_details(pair, graph, random_order(inputs, 0), size),
        plan=None if perm is None else order_details(pair, graph, perm, size),
        perm=perm,
        batch_losses=measured.plan.batch_losses if measured.plan else None,
        suspects=suspects,
    )


def order_details(pair: PairedRows, graph: Adjacency, perm: NDArray[np.int64], batch_size: int) -> OrderDetails:
    """The pictures and the hardest in-batch negatives (x→y) of one order."""
    start, stop = zoom_window(pair.rows, batch_size)
    return OrderDetails(
        density(graph, perm, 0, pair.rows),
        density(graph, perm, start, stop),
        hardest_in_batches(pair, perm, batch_size, SuspectPairs.none())[0][0],
    )


def zoom_window(rows: int, batch_size: int) -> tuple[int, int]:
    """Places of some whole batches at the middle of the order: [start, stop)."""
    batches = -(-rows // batch_size)
    first = max(0, (batches - ZOOM_BATCHES) // 2)
    return first * batch_size, min(rows, (first + ZOOM_BATCHES) * batch_size)


def density(graph: Adjacency, perm: NDArray[np.int64], start: int, stop: int) -> Density:
    """Count the graph's entries in square cells of the reordered matrix, from place `start` to `stop`."""
    place = inverse(perm)
    rows, cols = place[graph.row_of_entry()] - start, place[graph.indices] - start
    length = stop - start
    cells = min(PICTURE_BINS, length)
    inside = (rows >= 0) & (rows < length) & (cols >= 0) & (cols < length)
    keys = (rows[inside] * cells // length) * cells + cols[inside] * cells // length
    return Density(np.bincount(keys, minlength=cells * cells).reshape(cells, cells), start, stop)


def suspect_examples(
    pair: PairedRows, suspects: SuspectPairs, diagonal: NDArray[np.float64], batch_of_row: NDArray[np.int64]
) -> list[Suspect]:
    """The suspected pairs that come closest to, or exceed, the similarity of their own positives."""
    if len(suspects) == 0:
        return []
    lower, higher = suspects.lower, suspects.higher
    there, back = pair_values(pair, lower, higher), pair_values(pair, higher, lower)
    most = np.argsort(-np.maximum(there, back), kind="stable")[:EXAMPLES]
    return [
        Suspect(
            (int(lower[n]), int(higher[n])),
            int(batch_of_row[lower[n]]),
            (float(there[n]), float(back[n])),
            (float(diagonal[lower[n]]), float(diagonal[higher[n]])),
        )
        for n in most
    ]
