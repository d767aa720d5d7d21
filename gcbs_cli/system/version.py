"""The version of gcbs, where modules can read it without the package that imports them."""

VERSION = "0.1.0"


def installed(package: str) -> str | None:
    """The version of another package; None where it is not installed, or was built in place without metadata."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
