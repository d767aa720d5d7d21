"""What all figures of a report share: the pass over all pairs, the graph, and what losses need beside them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.planning.memory import MemoryForecast, check_memory, entries_above, fixed_bytes
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sums import loss_sums, pair_sums
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.reports.in_batch import log_sum_exp
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.arrays import Float32s, Floats, Ints, equal_rows, group_numbers
from gcbs_cli.system.progress import Progress, Stopwatch
from gcbs_cli.system.randomness import Stream

Figures = dict[str, Any]
"""Figures by their path; None for what is not known."""


@dataclass(frozen=True)
class RowFacts:
    """What is known of the rows beside their embeddings, each None where nothing is.

    positives: (N,) ids, for the loss `bsc` rows with the same one are positives of each other, without them equal rows
    of x are; labels: (N,) from 0 to 1, how much a row is a positive pair; groups: (N,) ids, rows with the same one are
    suspected too; raw: the rows before they were made unit rows, for `batch_coordinates`.
    """

    positives: Ints | None = None
    labels: Floats | None = None
    groups: Ints | None = None
    raw: PairedRows | None = None


ADVICE = "use fewer rows, in gcbs report by --rows"
"""What lowers the memory of a report."""
BYTES_PER_HARDEST = 12
"""For an entry on a list of the hardest, for the oracle."""
BYTES_OF_SUMS = 200
"""For the sums of a row at each temperature, in both directions, with and without suspected pairs."""
BYTES_PER_RAW_COORDINATE = 12
"""Of both sides in a report that normalises coordinates by batch, which needs the rows as they were."""
BYTES_PER_EDGE = 40
"""For an entry above t in a report, which neither weighs nor orders its edges (measured)."""
REPORT_SCRATCH = 80 << 20
"""For what a report samples, from 4,096 rows on: uniformity, random batches."""


def forecast_report(pairs: PairedRows, settings: ReportSettings, backend: Backend, hardest: int) -> MemoryForecast:
    """Memory of a report whose lists for the oracle hold so many of the hardest of each row."""
    rows, passes = pairs.rows, 3 if "simclr" in settings.loss else 1
    listed = passes * rows + 4 * backend.workers * sum(backend.tile_shape)  # those of a tile are found first
    fixed = fixed_bytes(rows, pairs.dim, backend, settings.requested_quantile(rows))
    fixed += BYTES_PER_HARDEST * hardest * listed + BYTES_OF_SUMS * len(settings.temperatures) * rows
    fixed += REPORT_SCRATCH * min(rows, 4096) // 4096
    if settings.batch_coordinates is not None:
        fixed += BYTES_PER_RAW_COORDINATE * pairs.dim * rows
    return MemoryForecast(rows, fixed, entries_above(pairs, settings, settings.seed), BYTES_PER_EDGE)


class ReportInputs:
    """What all losses and batch sizes share: the graph of hard pairs, the suspected pairs, and the sums over all keys.

    suspicions, sums: the rule for suspected pairs, and what follows from it, by whether known positives are none, as in
    bsc; positives: (N,) ids for bsc; diagonal: (N,) s_ii; coordinates: what
    `batch_coordinates` asked for; figures: those of the data, by path.
    """

    def __init__(
        self,
        pairs: PairedRows,
        settings: ReportSettings,
        watcher: Progress | None = None,
        facts: RowFacts = RowFacts(),
    ) -> None:
        """Find the quantile, the entries above t, and the sums over all keys.

        Raises BadInput for settings that do not fit the data, and before the passes where there is too little memory.
        """
        self.pairs, self.settings, self.facts = pairs, settings, facts
        self.clock = Stopwatch(watcher)
        settings.check_rows(pairs.rows)
        backend = choose_backend(settings.device, settings.chunk_rows)
        # The oracle keeps as many of the hardest of a row as the largest batch has.
        hardest = max(
            loss.oracle_negatives(pairs.rows, size) for loss in settings.losses for size in settings.batch_sizes
        )
        hardest = min(hardest, pairs.rows - 1)
        self.diagonal = pairs.diagonal()  # loads the compiled code before free memory is read
        threshold = self._find_hard_pairs(backend, hardest)
        plain = Suspicion.of(self.diagonal, threshold, settings.fn_margin, self.facts.groups)
        self.suspicions = {loss.kind == "bsc": plain for loss in settings.losses}
        if True in self.suspicions:
            self.positives = self._positive_ids()
            self.suspicions[True] = replace(plain, positives=group_numbers(self.positives))
        with self.clock.step("all pairs"):
            self.sums = {
                known: pair_sums(
                    pairs,
                    settings.temperatures,
                    backend,
                    suspicion,
                    hardest=hardest,
                    unsuspected="triplet" in settings.loss,
                    views="simclr" in settings.loss,
                    progress=self.clock.watcher.progress,
                )
                for known, suspicion in self.suspicions.items()
            }
        self.figures |= {
            # Mean ‖x_i − y_i‖² (Wang and Isola, ICML 2020), which is 2 − 2 s_ii for unit rows.
            "alignment": max(2.0 - 2.0 * float(self.diagonal.mean()), 0.0),
            "uniformity.x": uniformity(pairs.x, settings.seed, backend),
            "uniformity.y": uniformity(pairs.y, settings.seed, backend),
        }
        self.coordinates = None
        if self.facts.raw is not None:
            self.coordinates = CoordinateLosses(self.facts.raw, settings, backend)

    def _positive_ids(self) -> Ints:
        """(N,) rows with the same id >= 0 are positives of each other; −1 for those that are labelled negative."""
        facts, threshold = self.facts, self.settings.label_threshold
        ids = equal_rows(self.pairs.x)[1] if facts.positives is None else facts.positives
        if facts.labels is None:
            return ids
        return np.where(facts.labels > (BINARY_THRESHOLD if threshold is None else threshold), ids, -1)

    def _find_hard_pairs(self, backend: Backend, hardest: int) -> float:
        """Find the graph with its figures, and return t; hardest: keys that are listed of each row."""
        pairs, settings, progress = self.pairs, self.settings, self.clock.watcher.progress
        with self.clock.step("quantile"):
            forecast = forecast_report(pairs, settings, backend, hardest)
            most = check_memory(forecast, settings, "the report", ADVICE, held=pairs.x.nbytes + pairs.y.nbytes)
            grid = pairs.grid
            threshold = find_threshold(grid, settings, settings.seed, backend, progress)
        with self.clock.step("hard pairs"):
            edges = find(grid, threshold, backend, progress=progress, most=most).entries
            self.graph = adjacency_from_pairs(pairs.rows, edges.rows, edges.cols)
            identity = self.graph.measure(np.arange(pairs.rows), settings.batch_sizes[0])
        self.figures: Figures = {
            "graph.threshold": threshold.similarity,
            "graph.quantile": 1.0 - len(edges) / (pairs.rows * (pairs.rows - 1)),
            "graph.edges": self.graph.edges,
            "graph.isolated": int((self.graph.degrees == 0).sum()),
            "bandwidth.identity": identity.bandwidth,
            "profile.identity": identity.profile,
            "false_negatives.margin": settings.fn_margin,
        }
        return threshold.similarity


BINARY_THRESHOLD = 0.5
"""Labels above it mean yes unless --label-threshold says otherwise."""
MOST_ROWS = 10_000
SAMPLED_ROWS = 4_096


def uniformity(side: Float32s, seed: int, backend: Backend) -> float:
    """log mean exp(−2 ‖u_i − u_j‖²) over i ≠ j (Wang and Isola, ICML 2020); of 4,096 of them if rows are over 10,000.

    ‖u_i − u_j‖² = 2 − 2 u_i·u_j for unit rows.
    """
    if len(side) > MOST_ROWS:
        side = side[np.sort(Stream.UNIFORMITY_SAMPLE.generator(seed).choice(len(side), SAMPLED_ROWS, replace=False))]
    sums = loss_sums(side, side, [0.25], backend)[0][0] - 4.0 - np.log(len(side) * (len(side) - 1))
    return min(float(np.logaddexp.reduce(sums)), 0.0)


def normalised(rows: Float32s, how: str | None) -> Float32s:
    """The rows (n, d) of a batch, each coordinate over its norm or range in them (how: l2, min-max, range), or 0."""
    size = np.linalg.norm(rows.astype(np.float64), axis=0) if how == "l2" else np.ptp(rows, axis=0)
    shifted = rows - rows.min(axis=0) if how == "min-max" else rows
    return np.divide(shifted, size, out=np.zeros_like(rows), where=size > 0, dtype=np.float32, casting="same_kind")


class CoordinateLosses:
    """The loss where each coordinate is normalised over the rows of a batch, from rows as the data has them.

    Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022), section 3.5:
    "by the batch dimension", with L2 norms or in a min–max scale. The authors' code divides by the range alone. The
    loss over all rows normalises over all of them, so that the gap to it can be negative.
    in_all: (T, 2, N) at each temperature, in both directions, by input row, with all rows as one batch.
    """

    def __init__(self, raw: PairedRows, settings: ReportSettings, backend: Backend) -> None:
        self._raw, self._how = raw, settings.batch_coordinates
        sides = [normalised(side, self._how) for side in (raw.x, raw.y)]
        # The sums expect products of at most 1: rows are scaled to that, and temperatures with them.
        scales = [float(np.linalg.norm(side, axis=1).max()) or 1.0 for side in sides]
        x, y = (side / scale for side, scale in zip(sides, scales, strict=True))
        scaled = np.array(settings.temperatures) / np.prod(scales)
        own = np.vecdot(x, y) / scaled[:, None, None]
        self.in_all = np.stack(loss_sums(x, y, scaled.tolist(), backend), axis=1) - own

    def in_batches(self, perm: Ints, batch_size: int, temperature: float) -> Floats:
        """(2, N) in the batches of an order; 0 for rows that it leaves out."""
        losses = np.zeros((2, self._raw.rows))
        for start in range(0, len(perm), batch_size):
            rows = perm[start : start + batch_size]
            x, y = (normalised(side[rows], self._how) for side in (self._raw.x, self._raw.y))
            products = x @ y.T
            sums = [log_sum_exp(side, temperature) for side in (products, products.T)]
            losses[:, rows] = np.stack(sums) - products.diagonal() / temperature
        return losses
