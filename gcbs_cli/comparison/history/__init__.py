"""Reports of several epochs side by side, and what they say about planning again."""

from gcbs_cli.comparison.history.build import Epoch, History, make_history
from gcbs_cli.comparison.history.files import HistoryInput, read_history

__all__ = ["Epoch", "History", "HistoryInput", "make_history", "read_history"]
