"""`gcbs tune`: which settings around the preset train best on this data, within a time budget."""

from gcbs_cli.cli.compare import compare_by_training
from gcbs_cli.cli.output import Output
from gcbs_cli.comparison.tune import tried
from gcbs_cli.settings.others import Tune
from gcbs_cli.settings.plan import PlanSettings

ORDERS = 3
"""Random ones that gaps are compared with."""


def tune(settings: Tune) -> None:
    """Train by each of some plans, and print the command line of the best."""
    plans = tried(settings.only(PlanSettings), texts=settings.text is not None)
    compare_by_training(settings, plans, Output(settings), settings.budget, ORDERS)
