"""Pairs of unit rows to try gcbs on: ordinary ones, and those on which rounding and ties decide."""

from functools import cache

import numpy as np
import reference

from gcbs_cli.data.opening import from_array
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.graph.hard_pairs import find, hard_pairs, list_length
from gcbs_cli.plan_file.manifest import Manifest, permutation_hash
from gcbs_cli.system.progress import Progress


def unit(rows):
    """Rows divided by their norms in float64, rounded once to float32."""
    rows = np.asarray(rows, np.float64)
    return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def _random(rng, rows):
    return unit(rng.normal(size=(rows, 12))), unit(rng.normal(size=(rows, 12)))


def _related(rng, rows):
    x = rng.normal(size=(rows, 16))
    return unit(x), unit(x + 0.7 * rng.normal(size=x.shape))


def _duplicates(rng, rows):
    some = rng.normal(size=(5, 24))
    return unit(some[rng.integers(5, size=rows)]), unit(some[rng.integers(5, size=rows)])


def _all_equal(rng, rows):
    side = unit(np.repeat(rng.normal(size=(1, 37)), rows, axis=0))
    return side, side.copy()


def _near_equal(rng, rows):
    """Clusters whose members have cosine 1 − 1e-7 with each other."""
    centres = unit(rng.normal(size=(3, 32)))
    member = rng.integers(3, size=rows)
    return tuple(unit(centres[member] + 5.6e-5 * rng.normal(size=(rows, 32))) for _ in "xy")


def _lattice(rng, rows):
    """Coordinates ±½ in four dimensions: products are exact multiples of ½, so many entries lie at any threshold."""
    return tuple(np.float32(rng.choice([-0.5, 0.5], size=(rows, 4))) for _ in "xy")


def _one_dimension(rng, rows):
    return tuple(np.float32(rng.choice([-1.0, 1.0], size=(rows, 1))) for _ in "xy")


def _wide(rng, rows):
    return unit(rng.normal(size=(rows, 1003))), unit(rng.normal(size=(rows, 1003)))


def _hubs(rng, rows):
    """A few rows and columns are near everything."""
    x, y = rng.normal(size=(rows, 8)), rng.normal(size=(rows, 8))
    x[: rows // 10, 0] += 4.0
    y[:, 0] += 1.5
    return unit(x), unit(y)


KINDS = {
    "random": _random,
    "related": _related,
    "duplicates": _duplicates,
    "all-equal": _all_equal,
    "cosine-1-1e-7": _near_equal,
    "at-threshold": _lattice,
    "one-dimension": _one_dimension,
    "1003-dimensions": _wide,
    "hubs": _hubs,
}


class Listener(Progress):
    """A watcher that remembers the notes, and how much was done of how much."""

    def __init__(self):
        self.notes, self.done = [], []

    def note(self, text):
        self.notes.append(text)

    def progress(self, done, total):
        self.done.append((done, total))


@cache
def make_pair(kind, rows, seed=0):
    """N pairs of unit rows of a kind named in KINDS."""
    return PairedRows(*KINDS[kind](np.random.default_rng([seed, rows]), rows))


@cache
def exact_matrix(kind, rows, seed=0):
    """The (N, N) float64 similarities of the pairs that `make_pair` gives; shared by tests and so read-only."""
    pair = make_pair(kind, rows, seed)
    matrix = reference.similarity_matrix(pair.x, pair.y)
    matrix.setflags(write=False)
    return matrix


def stream_of(pair, block_bytes=1 << 20):
    """The pairs as a command reads them, so many bytes at a time."""
    return PairStream(from_array(pair.x, "x"), from_array(pair.y, "y"), block_bytes=block_bytes)


def numbers_of(grid):
    """(N, M) int64 what a pass compares: the products of a grid's rows with their offsets."""
    products = grid.x.astype(np.int64) @ grid.y.T.astype(np.int64)
    return products + grid.x_offsets[:, None] + grid.y_offsets


@cache
def grid_matrix(kind, rows, seed=0):
    """(N, N) float64 the similarities that the numbers of a pair's grid stand for, in which rounded rows are equal."""
    grid = make_pair(kind, rows, seed).grid
    matrix = (numbers_of(grid) + grid.constant) / grid.scale**2
    matrix.setflags(write=False)
    return matrix


@cache
def product_matrix(kind, rows, seed=0):
    """(N, N) the products of a pair's grid without the offsets, which the lists of a plan compare."""
    grid = make_pair(kind, rows, seed).grid
    return grid.x.astype(np.int64) @ grid.y.T.astype(np.int64)


def of_loss(loss):
    """The settings of a report that ask for this loss."""
    return {
        "loss": [loss.kind],
        "queue": loss.queue_batches,
        "queue_mode": loss.queue_mode,
        "loss_margin": loss.margin,
        "loss_top": loss.top,
    }


def find_hard_pairs(pair, settings, threshold, backend):
    """The hard pairs of these settings, by the pass that they need."""
    found = find(pair.grid, threshold, backend, lists=list_length(settings))
    return hard_pairs(pair, settings, found)


def build_manifest(perm, **changed):
    """A manifest of this permutation, as `gcbs plan` writes it."""
    side = {"rows": len(perm), "dim": 8, "dtype": "float16"}
    fields = {
        "tool_version": "0.1.0",
        "command": ["gcbs", "plan", "x.npy", "y.npy", "-o", "perm.npy"],
        "created": "2024-05-01T12:00:00+00:00",
        "inputs": {
            name: {"paths": [f"{name}.npy"], "name": name, "fingerprint": f"xxh3:{name}", **side} for name in "xy"
        },
        "rows": len(perm),
        "batch_size": 4,
        "temperature": 0.05,
        "seed": 0,
        "quantile": {"method": "sample", "requested": 0.999, "threshold": 0.61, "interval": (0.9985, 0.9993)},
        "graph": {"edges": 120, "isolated": 3, "max_degree": 17},
        "bandwidth": {"before": 90, "after": 20},
        "method": "rcm",
        "permutation_hash": permutation_hash(perm),
        "timings": {"edges": 0.5},
    }
    return Manifest.model_validate(fields | changed)
