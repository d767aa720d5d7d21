"""The version of gcbs, where modules can read it without the package that imports them."""

from importlib import import_module
from typing import Any

from gcbs_cli.system.errors import BadInput

VERSION = "0.1.0"


def required(package: str, option: str, extra: str) -> Any:
    """The package that an option needs, imported. Raises BadInput where it is not installed."""
    try:
        return import_module(package)
    except ImportError as error:
        raise BadInput(f'{option}: {package} is not installed; run: pip install "gcbs[{extra}]"') from error


def installed(package: str) -> str | None:
    """The version of another package; None where it is not installed, or was built in place without metadata."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
