"""Files elsewhere (s3://, gs://, hf://, https://): fetched once through fsspec, then read like files here."""

import atexit
import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

from numpy.typing import NDArray

from gcbs_cli.data.files import one_line, shown
from gcbs_cli.data.folders import natural_key
from gcbs_cli.data.source import EmbeddingSource
from gcbs_cli.system.errors import BadInput

_WEB: Final = ("http://", "https://")
_MAGIC: Final = "*?["
_WEB_MAGIC: Final = "*["
"""What makes an address a pattern; a web address's ? begins its query."""

_FREE_BYTES: Final = 1 << 28
"""Left free on the disk of the copies: an answer without an end would fill it."""


@dataclass(frozen=True)
class Copy:
    """What was fetched: a file or folder, or the files that matched; `folder` here stands for `url` there."""

    path: str | list[str]
    folder: str
    url: str

    def there(self, text: str) -> str:
        """Return a message, name or path in terms of the address."""
        return text.replace(self.folder, self.url)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Name the address in what goes wrong within."""
        try:
            yield
        except BadInput as error:
            raise BadInput(self.there(str(error))) from None


def is_remote(path: str) -> bool:
    """Return whether the path is an address such as s3://bucket/x.npy."""
    protocol, separator, _ = path.partition("://")
    return bool(separator) and protocol.replace("+", "").replace("-", "").isalnum() and protocol != "file"


def without_secrets(word: str) -> str:
    """Return an address as it may stand in a file that is shared: no user, no password, no query; else the word."""
    if not is_remote(word):
        return word
    parts = urlsplit(word)
    if not parts.query and "@" not in parts.netloc:
        return word
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" + ("?…" if parts.query else "")


def fetched(url: str, open_copy: Callable[[str | list[str]], EmbeddingSource]) -> EmbeddingSource:
    """Fetch a file, folder or pattern into a folder that goes when the process ends, and open it there.

    The names, paths and errors of the source are those of the place it came from. Raises BadInput: fsspec or the
    package for the protocol is missing, nothing lies there, it cannot be fetched.
    """
    copy = _fetch(url)
    with copy.naming():
        source = open_copy(copy.path)

    def blocks(rows_per_block: int) -> Iterator[NDArray[Any]]:
        with copy.naming():
            yield from source.blocks(rows_per_block)

    return replace(
        source,
        name=copy.there(source.name),
        paths=tuple(copy.there(path) for path in source.paths),
        shards=tuple(replace(shard, name=copy.there(shard.name)) for shard in source.shards),
        blocks=blocks,
    )


@cache
def _fetch(url: str) -> Copy:
    """Fetch what lies at an address; both sides may come from one file, which is fetched once."""
    said = shown(without_secrets(url))
    try:
        import fsspec
    except ImportError:
        raise BadInput(f"{said}: found a remote path, expected fsspec for it; pip install 'gcbs[remote]'") from None
    folder = tempfile.mkdtemp(prefix="gcbs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        files, path = fsspec.core.url_to_fs(url)
        return _copy(files, path, without_secrets(url).rstrip("/"), folder)
    except BadInput:
        raise
    except ImportError as error:
        raise BadInput(f"{said}: found that a package for it is missing ({one_line(error)}); install it") from None
    except FileNotFoundError:
        raise BadInput(f"{said}: found no such file, expected embeddings; check the address") from None
    except Exception as error:  # every protocol raises its own
        distrust = _distrust(error)
        if distrust is not None:
            raise BadInput(
                f"{said}: found a certificate that is not trusted ({distrust}), expected one of a known "
                "authority and of this host; name your authority's file in SSL_CERT_FILE"
            ) from None
        # The library's words may repeat the address.
        reason = one_line(error) if without_secrets(url) == url else type(error).__name__
        raise BadInput(f"{said}: found that it cannot be fetched ({reason}); check address and access") from None


def _distrust(error: BaseException | None) -> str | None:
    """Return what TLS found wrong with the server's certificate, where that is the cause."""
    while error is not None:
        message = getattr(error, "verify_message", None)  # of ssl's own error; other libraries' have its type as well
        if isinstance(error, ssl.SSLCertVerificationError) and message:
            return str(message).rstrip(".")
        error = error.__cause__ or error.__context__
    return None


def _copy(files: Any, path: str, said: str, folder: str) -> Copy:
    """Fetch a pattern, a folder or a file. said: the address in messages."""
    web = path.startswith(_WEB)
    magic = [path.find(sign) for sign in (_WEB_MAGIC if web else _MAGIC) if sign in path]
    if magic:
        root = path[: min(magic)].rpartition("/")[0]
        found = sorted(files.glob(path), key=natural_key)
        if not found:
            if web:
                files.ls(root + "/", detail=False)  # raises why it cannot be listed, which a pattern passes over
            raise BadInput(
                f"{shown(said)}: found no file that matches, expected files of embeddings; check the pattern"
            )
        there = said[: min(said.find(sign) for sign in _MAGIC if sign in said)].rpartition("/")[0]
        return Copy([_get(files, file, root, folder) for file in found], folder, there)
    root = path.rstrip("/")
    name = os.path.basename(urlsplit(root).path if web else root) or "data"
    target = os.path.join(folder, name)
    inside = []
    if web and not os.path.splitext(name)[1]:  # never asked for a file, which would be fetched whole
        links = files.ls(root + "/", detail=False)
        inside = [link for link in links if "?" not in link and not link.endswith("/")]
    elif not web and files.isdir(path):
        inside = files.find(root)
    for file in inside:
        _get(files, file, root, target)
    if not inside:
        files.get_file(path, target, callback=_stop_before_full(folder))
    return Copy(target, target, said)


def _get(files: Any, path: str, root: str, folder: str) -> str:
    """Fetch a file into a folder, at its path below `root`, so that equal names cannot meet; return where it lies."""
    place = os.path.normpath("/" + urlsplit(path.removeprefix(root)).path).lstrip("/")
    target = os.path.join(folder, place)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    files.get_file(path, target, callback=_stop_before_full(folder))
    return target


def _stop_before_full(folder: str) -> Any:
    from fsspec.callbacks import Callback

    def check_disk(*_: object, **__: object) -> None:
        if shutil.disk_usage(os.path.dirname(folder)).free < _FREE_BYTES:
            raise OSError("the disk of the temporary folder is nearly full; name a larger one in TMPDIR")

    return Callback(hooks={"disk": check_disk})
