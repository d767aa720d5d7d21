"""Plan the batches of contrastive training, and report how much of the loss gap a plan closes.

    import gcbs_cli as gcbs

    result = gcbs.plan(x, y, batch_size=64)
    print(gcbs.report(x, y, result.perm, batch_size=64).gap.reduction)

The command line is `gcbs`; see `gcbs --help`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gcbs_cli.system import version

if TYPE_CHECKING:
    from gcbs_cli.api import mine, plan, report, report_all
    from gcbs_cli.system.errors import BadInput, GcbsError
    from gcbs_cli.trainers.attach import plan_batches, planned

__version__ = version.VERSION
__all__ = ["BadInput", "GcbsError", "__version__", "mine", "plan", "plan_batches", "planned", "report", "report_all"]


_MODULES = {
    **dict.fromkeys(("mine", "plan", "report", "report_all"), "api"),
    **dict.fromkeys(("plan_batches", "planned"), "trainers.attach"),
    **dict.fromkeys(("BadInput", "GcbsError"), "system.errors"),
}


def __getattr__(name: str) -> Any:
    """Import the numerics only when asked for, so that `gcbs --help` is quick."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
