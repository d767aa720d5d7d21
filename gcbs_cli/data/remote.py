"""Files elsewhere (s3://, gs://, hf://, https://): fetched once through fsspec, then read like files here."""

import atexit
import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

from numpy.typing import NDArray

from gcbs_cli.data.files import FileStamp, one_line, shown
from gcbs_cli.data.source import EmbeddingSource
from gcbs_cli.system.errors import BadInput

_WEB: Final = ("http://", "https://")
_MAGIC: Final = "*?["
_WEB_MAGIC: Final = "*["
"""What makes an address a pattern; a web address's ? begins its query."""


@dataclass(frozen=True)
class RemoteSource:
    """A source read from a copy here; names, paths and errors are those of the place it came from."""

    copy: EmbeddingSource
    local: str
    url: str

    @property
    def name(self) -> str:
        """The address, and the column."""
        return self._there(self.copy.name)

    @property
    def paths(self) -> tuple[str, ...]:
        """The addresses of the files."""
        return tuple(self._there(path) for path in self.copy.paths)

    @property
    def stamps(self) -> tuple[FileStamp, ...]:
        """The stamps of the copies."""
        return self.copy.stamps

    @property
    def rows(self) -> int:
        """N."""
        return self.copy.rows

    @property
    def dim(self) -> int:
        """d."""
        return self.copy.dim

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.copy.dtype

    @property
    def column(self) -> str | None:
        """The column or tensor."""
        return self.copy.column

    def blocks(self, rows_per_block: int) -> Iterator[NDArray[Any]]:
        """Yield the rows in blocks; see `EmbeddingSource.blocks`."""
        try:
            yield from self.copy.blocks(rows_per_block)
        except BadInput as error:
            raise BadInput(self._there(str(error))) from None

    def locate(self, row: int) -> str:
        """Say where a row lies."""
        return self._there(self.copy.locate(row))

    def _there(self, text: str) -> str:
        return text.replace(self.local, self.url)


def is_remote(path: str) -> bool:
    """Whether the path is an address such as s3://bucket/x.npy."""
    protocol, separator, _ = path.partition("://")
    return bool(separator) and protocol.replace("+", "").replace("-", "").isalnum() and protocol != "file"


def without_secrets(word: str) -> str:
    """An address as it may stand in a file that is shared: no user, no password, no query; else the word."""
    if not is_remote(word):
        return word
    parts = urlsplit(word)
    if not parts.query and "@" not in parts.netloc:
        return word
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" + ("?…" if parts.query else "")


def open_remote(url: str, open_local: Callable[[str], EmbeddingSource]) -> RemoteSource:
    """Fetch the file, folder or pattern into a folder that goes when the process ends, and open it there.

    Raises BadInput: fsspec or the package for the protocol is missing, nothing lies there, it cannot be fetched.
    """
    local = _fetch(url)
    base = without_secrets(url).rstrip("/")
    try:
        return RemoteSource(open_local(local), local, base)
    except BadInput as error:
        raise BadInput(str(error).replace(local, base)) from None


@cache
def _fetch(url: str) -> str:
    """The path of the copy; both sides may come from one file, which is fetched once."""
    try:
        import fsspec
    except ImportError:
        raise BadInput(
            f"{shown(url)}: found a remote path, expected fsspec for it; pip install 'gcbs[remote]'"
        ) from None
    folder = tempfile.mkdtemp(prefix="gcbs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        files, path = fsspec.core.url_to_fs(url)
        return _copy(files, path, url, folder)
    except ImportError as error:
        raise BadInput(
            f"{shown(url)}: found that a package for it is missing ({one_line(error)}); install it"
        ) from None
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput(f"{shown(url)}: found no such file, expected embeddings; check the address") from None
    except Exception as error:  # every protocol raises its own
        distrust = _distrust(error)
        if distrust is not None:
            raise BadInput(
                f"{shown(url)}: found a certificate that is not trusted ({distrust}), expected one of a known "
                "authority and of this host; name your authority's file in SSL_CERT_FILE"
            ) from None
        raise BadInput(
            f"{shown(url)}: found that it cannot be fetched ({one_line(error)}); check address and access"
        ) from None


def _distrust(error: BaseException | None) -> str | None:
    """What TLS found wrong with the server's certificate, where that is the cause."""
    while error is not None:
        message = getattr(error, "verify_message", None)  # of ssl's own error; other libraries' have its type as well
        if isinstance(error, ssl.SSLCertVerificationError) and message:
            return str(message).rstrip(".")
        error = error.__cause__ or error.__context__
    return None


def _copy(files: Any, path: str, url: str, folder: str) -> str:
    web = path.startswith(_WEB)
    if any(sign in path for sign in (_WEB_MAGIC if web else _MAGIC)):
        found = sorted(files.glob(path))
        if not found:
            if web:
                _listed(files, _folder_of(path))  # raises why it cannot be listed, which a pattern passes over
            raise BadInput(f"{shown(url)}: found no file that matches, expected files of embeddings; check the pattern")
        return _copy_all(files, found, os.path.join(folder, "matches"))
    name = _name(path)
    target = os.path.join(folder, name)
    if web:
        listed = [] if os.path.splitext(name)[1] else _listed(files, path)
        if listed:
            return _copy_all(files, listed, target)
    elif files.isdir(path):
        files.get(path.rstrip("/") + "/", target + "/", recursive=True)
        return target
    files.get_file(path, target)
    return target


def _copy_all(files: Any, paths: list[str], target: str) -> str:
    os.makedirs(target)
    for path in paths:
        files.get_file(path, os.path.join(target, _name(path)))
    return target


def _listed(files: Any, path: str) -> list[str]:
    """The files that a web server's page of a folder links to; never asked for a file, which would be fetched whole."""
    links = files.ls(path.rstrip("/") + "/", detail=False)
    return sorted(link for link in links if "?" not in link and not link.endswith("/"))


def _folder_of(pattern: str) -> str:
    """The part of a web address before the name that holds the first sign of a pattern."""
    first = min(pattern.find(sign) for sign in _WEB_MAGIC if sign in pattern)
    return pattern[:first].rpartition("/")[0]


def _name(path: str) -> str:
    """The file's name; of a web address without what follows the ?, such as a signature."""
    place = urlsplit(path).path if path.startswith(_WEB) else path
    return os.path.basename(place.rstrip("/")) or "data"
