"""`gcbs tune`: which settings around the preset train best on this data, within a time budget."""

from typing import Any

from gcbs_cli.cli.compare import compare_by_training
from gcbs_cli.cli.output import Output
from gcbs_cli.comparison.compare import NEEDS_TEXT, PRESET_ROW, RANDOM, settings_of
from gcbs_cli.settings.others import Tune
from gcbs_cli.settings.plan import PlanSettings

AROUND: dict[str, tuple[Any, ...]] = {
    "method": ("rcm",),
    "fn_margin": (0.95, 1.15),
    "fn_weight": (0.0, 1.0),
    "top": (8, 32),
}
"""Other values of the preset's options."""


def tune(settings: Tune) -> None:
    """Train by random batches, the paper's plan, the preset and what is near it; print the command line of the best."""
    shared = settings.only(PlanSettings)
    names = [RANDOM, "rcm", PRESET_ROW]
    if settings.text is not None:
        names.append(NEEDS_TEXT)
    plans = {name: settings_of(name, shared) for name in names}
    preset = plans[PRESET_ROW]
    around = dict(AROUND)
    half, rest = divmod(settings.batch_size, 2)
    if half > 1 and not rest:
        around["group_size"] = (half,)
    for option, values in around.items():
        for value in values:
            if value != getattr(preset, option):
                name = f"{PRESET_ROW} --{option.replace('_', '-')} {value}"
                plans[name] = preset.changed(**{option: value})
    compare_by_training(settings, plans, Output(settings, settings.html))
