"""Files elsewhere (s3://, gs://, hf://, https://): fetched once through fsspec, then read like files here."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from numpy.typing import NDArray

from gcbs_cli.embeddings.files import FileStamp, one_line, shown
from gcbs_cli.embeddings.source import EmbeddingSource
from gcbs_cli.errors import BadInput


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


def open_remote(url: str, open_local: Callable[[str], EmbeddingSource]) -> RemoteSource:
    """Fetch the file, folder or pattern into a folder that goes when the process ends, and open it there.

    Raises BadInput: fsspec or the package for the protocol is missing, nothing lies there, it cannot be fetched.
    """
    local = _fetch(url)
    base = url.rstrip("/")
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
    except Exception as error:  # every protocol raises its own
        raise BadInput(
            f"{shown(url)}: found that it cannot be fetched ({one_line(error)}); check address and access"
        ) from None


def _copy(files: Any, path: str, url: str, folder: str) -> str:
    name = os.path.basename(path.rstrip("/")) or "data"
    if any(sign in path for sign in "*?["):
        found = sorted(files.glob(path))
        if not found:
            raise BadInput(f"{shown(url)}: found no file that matches, expected files of embeddings; check the pattern")
        target = os.path.join(folder, "matches")
        os.makedirs(target)
        for file in found:
            files.get_file(file, os.path.join(target, os.path.basename(file)))
        return target
    target = os.path.join(folder, name)
    if files.isdir(path):
        files.get(path.rstrip("/") + "/", target + "/", recursive=True)
    elif files.exists(path):
        files.get_file(path, target)
    else:
        raise BadInput(f"{shown(url)}: found no such file, expected embeddings; check the address")
    return target
