"""Find out from the call stack whether accelerate deals out the batches of a sampler."""

from dataclasses import dataclass
from types import FrameType
from typing import Any

_DISPATCHER = "DataLoaderDispatcher"
_DEALERS = ("BatchSamplerShard", _DISPATCHER)
_SKIPPER = "SkipBatchSampler"
_MODULE = "accelerate.data_loader"


@dataclass(frozen=True)
class AccelerateSettings:
    """Accelerate's settings: number of ranks, whether it slices each batch among them, whether rank 0 reads for all.

    skips: whether `skip_first_batches` is in use, as in a resumed epoch.
    """

    num_processes: int
    split_batches: bool
    dispatches: bool
    skips: bool


def find_accelerate(frame: FrameType | None) -> AccelerateSettings | None:
    """Return the settings of the accelerate object that iterates in this frame or above it; None if there is none.

    Neither `accelerator.prepare` nor its wrappers pass their settings to a custom batch sampler, and wrong settings
    silently train on torn batches. The frame that asks for the next batch knows them.
    """
    skips = False
    while frame is not None:
        if frame.f_globals.get("__name__") == _MODULE:
            caller: Any = frame.f_locals.get("self")
            name = type(caller).__name__
            skips = skips or name == _SKIPPER
            if name in _DEALERS:
                ranks = int(getattr(caller, "state", caller).num_processes)
                return AccelerateSettings(ranks, bool(caller.split_batches), name == _DISPATCHER, skips)
        frame = frame.f_back
    return None
