"""Read plans for trainers from an array, a file, or a name pattern with a file per epoch, and check them."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gcbs_cli.plan_file.check import Plan, load_plan
from gcbs_cli.plan_file.permutation import verify_permutation
from gcbs_cli.system.errors import BadInput

EPOCH_FIELD = "{epoch"
"""What makes a path a name pattern: `perm-{epoch}.npy`, `plans/{epoch:03d}.npy`."""


class PlanWarning(UserWarning):
    """Warns that a plan is used otherwise than it was made for."""


class PlanSource:
    """The source of a sampler's plans.

    given: a permutation (array, tensor, list or the result of `gcbs_cli.plan`), the path of a plan, or a pattern such
    as `perm-{epoch}.npy`. A path is read once and gives one plan for all epochs. A pattern gives the newest plan for
    this epoch or an earlier one, so that a run keeps the old plan until there is a new one.
    """

    def __init__(self, given: Any, rows: int | None = None) -> None:
        self._rows = rows
        self._pattern: str | None = None
        self._path: Path | None = None
        self._stamp: tuple[int, int, int] | None = None
        self._plan: Plan | None = None
        if isinstance(given, str | os.PathLike):
            text = os.fspath(given)
            if EPOCH_FIELD in text:
                self._pattern = text
            else:
                self._read(Path(text))
        else:
            self._plan = _from_array(given, rows)

    def replace(self, given: Any) -> Plan:
        """Use this permutation from now on, instead of the file or pattern; it must have as many rows."""
        rows = self._plan.rows if self._plan is not None else self._rows
        self._plan, self._pattern, self._path = _from_array(given, rows), None, None
        return self._plan

    def for_epoch(self, epoch: int) -> Plan:
        """Return the plan of an epoch. Raises BadInput if there is none, or if its number of rows has changed."""
        if self._pattern is not None:
            path = _newest(self._pattern, epoch)
            if path != self._path or _stamp(path) != self._stamp:
                self._read(path)
        elif self._path is not None and _stamp(self._path) != self._stamp:
            warnings.warn(
                f"{self._path}: replaced after it was read; this run keeps the plan it has. "
                "Use a name pattern such as perm-{epoch}.npy to take a new plan each epoch",
                PlanWarning,
                stacklevel=3,
            )
            self._stamp = _stamp(self._path)
        if self._plan is None:
            raise BadInput("plan: none given")
        return self._plan

    def _read(self, path: Path) -> None:
        rows = self._plan.rows if self._plan is not None else self._rows
        before = _stamp(path)
        self._plan = load_plan(path, rows)
        self._path, self._stamp = path, before


def _from_array(given: Any, rows: int | None) -> Plan:
    """Make a plan from a PlanResult, an array, a tensor or a list."""
    result, given = given, getattr(given, "perm", given)
    if isinstance(given, Plan):
        return given
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    if isinstance(given, Mapping) or not isinstance(given, np.ndarray | list | tuple | range):
        raise BadInput(
            f"plan: found {type(given).__name__}, expected a permutation or the path of one; Lightning passes its own "
            "sampler here unless Trainer(use_distributed_sampler=False)"
        )
    array = np.asarray(given)
    verify_permutation(array, len(array) if rows is None else rows, "plan")
    return Plan(
        array.astype(np.int64),
        "plan",
        getattr(result, "batch_size", None),
        world_size=getattr(result, "world_size", None),
        gather=getattr(result, "gather", None) or None,
    )


def _newest(pattern: str, epoch: int) -> Path:
    for number in range(epoch, -1, -1):
        path = _numbered(pattern, number)
        if path.exists():
            return path
    first = _numbered(pattern, 0)
    raise BadInput(f"{pattern}: no plan for epoch {epoch} or an earlier one, not even {first}; make a plan first")


def _numbered(pattern: str, epoch: int) -> Path:
    try:
        return Path(pattern.format(epoch=epoch))
    except (KeyError, IndexError, ValueError) as error:
        raise BadInput(f"{pattern}: not a name pattern; use one such as perm-{{epoch}}.npy") from error


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
