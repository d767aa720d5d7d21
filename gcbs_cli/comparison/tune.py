"""The settings that `gcbs tune` tries: the preset, and what is near it."""

from typing import Any

from gcbs_cli.comparison.compare import NEEDS_TEXT, PRESET_ROW, RANDOM, settings_of
from gcbs_cli.settings.plan import PlanSettings

AROUND: dict[str, tuple[Any, ...]] = {
    "method": ("rcm",),
    "fn_margin": (0.95, 1.15),
    "fn_weight": (0.0, 1.0),
    "top": (8, 32),
}
"""Other values of the preset's options."""


def tried(shared: PlanSettings, *, texts: bool) -> dict[str, PlanSettings]:
    """By name: random batches, the paper's plan, the preset, the preset with one option changed.

    texts: the method words, too.
    """
    found = {name: settings_of(name, shared) for name in (RANDOM, "rcm", PRESET_ROW, *[NEEDS_TEXT] * texts)}
    preset, half = found[PRESET_ROW], shared.batch_size // 2
    around = AROUND | {"group_size": (half,) if half > 1 and shared.batch_size % 2 == 0 else ()}
    for option, values in around.items():
        for value in values:
            if value != getattr(preset, option):
                name = f"{PRESET_ROW} --{option.replace('_', '-')} {value}"
                found[name] = preset.changed(**{option: value})
    return found
