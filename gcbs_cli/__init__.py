"""Plan the batches of contrastive training, and report how much of the loss gap a plan closes.

    import gcbs_cli as gcbs

    result = gcbs.plan(x, y, batch_size=64)
    print(gcbs.report(x, y, result.perm, batch_size=64).gap.reduction)

The command line is `gcbs`; see `gcbs --help`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gcbs_cli.system import version
from gcbs_cli.system.errors import BadInput, GcbsError

if TYPE_CHECKING:
    from gcbs_cli.api import mine, plan, report, report_all
    from gcbs_cli.trainers.attach import plan_batches, planned

__version__ = version.VERSION
__all__ = ["BadInput", "GcbsError", "__version__", "mine", "plan", "plan_batches", "planned", "report", "report_all"]


def __getattr__(name: str) -> Any:
    """Import the numerics only when asked for, so that `gcbs --help` is quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "trainers.attach" if name in ("plan_batches", "planned") else "api"
    return getattr(import_module(f"{__name__}.{module}"), name)
