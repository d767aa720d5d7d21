"""Whether accelerate is dealing out the batches of a sampler, found on the call stack."""

from dataclasses import dataclass
from types import FrameType
from typing import Any

_DEALERS = ("BatchSamplerShard", "DataLoaderDispatcher")
_MODULE = "accelerate.data_loader"


@dataclass(frozen=True)
class AccelerateDealing:
    """Accelerate's settings: ranks, and whether it slices each batch between them."""

    num_processes: int
    split_batches: bool


def find_accelerate(frame: FrameType | None) -> AccelerateDealing | None:
    """The dealing of the accelerate object that iterates from this frame or above it; None if there is none.

    Neither `accelerator.prepare` nor its wrappers pass their settings on to a custom batch sampler, and a wrong
    combination trains on torn batches without a word. The frame that asks for the next batch knows them.
    """
    while frame is not None:
        if frame.f_globals.get("__name__") == _MODULE:
            caller: Any = frame.f_locals.get("self")
            if type(caller).__name__ in _DEALERS:
                state = getattr(caller, "state", caller)
                return AccelerateDealing(int(state.num_processes), bool(caller.split_batches))
        frame = frame.f_back
    return None
