"""Plan the batches of contrastive training, and report how much of the loss gap a plan closes.

    from gcbs_cli import plan, report

    result = plan(x, y, batch_size=64)
    print(report(x, y, result.perm, batch_size=64).gap.reduction)

The command line is `gcbs`; see `gcbs --help`.
"""

from typing import TYPE_CHECKING, Any

from gcbs_cli.system import version

if TYPE_CHECKING:
    from gcbs_cli.api import mine, plan, report, report_all
    from gcbs_cli.system.errors import BadInput, GcbsError

__version__ = version.VERSION
__all__ = ["BadInput", "GcbsError", "__version__", "mine", "plan", "report", "report_all"]


def __getattr__(name: str) -> Any:
    """Import the numerics only when asked for, so that `gcbs --help` is quick."""
    if name in ("mine", "plan", "report", "report_all"):
        from gcbs_cli import api

        return getattr(api, name)
    if name in ("BadInput", "GcbsError"):
        from gcbs_cli.system import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'gcbs_cli' has no attribute {name!r}")
