"""Plan the batches of contrastive training, and report how much of the loss gap a plan closes.

    import gcbs_cli as gcbs

    result = gcbs.plan(x, y, batch_size=64)
    print(gcbs.report(x, y, result.perm, batch_size=64).gap.reduction)

The command line is `gcbs`; see `gcbs --help`.
"""

from typing import TYPE_CHECKING, Any

from gcbs_cli.system import version

if TYPE_CHECKING:
    from gcbs_cli.api import mine, plan, report, report_all
    from gcbs_cli.system.errors import BadInput, GcbsError
    from gcbs_cli.trainers.attach import plan_batches, planned

__version__ = version.VERSION
__all__ = ["BadInput", "GcbsError", "__version__", "mine", "plan", "plan_batches", "planned", "report", "report_all"]


def __getattr__(name: str) -> Any:
    """Import the numerics only when asked for, so that `gcbs --help` is quick."""
    if name in ("mine", "plan", "report", "report_all"):
        from gcbs_cli import api

        return getattr(api, name)
    if name in ("plan_batches", "planned"):
        from gcbs_cli.trainers import attach

        return getattr(attach, name)
    if name in ("BadInput", "GcbsError"):
        from gcbs_cli.system import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'gcbs_cli' has no attribute {name!r}")
