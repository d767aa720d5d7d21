"""Files elsewhere (s3://, gs://, hf://, https://): fetched once through fsspec, then read like files here."""

import atexit
import errno
import os
import re
import shutil
import socket
import tempfile
from functools import cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from gcbs_cli.data.files import COPIES, one_line, shown
from gcbs_cli.system.errors import BadInput, without_secrets

_WILD = re.compile(r"[*\[]")
"""What makes an address a pattern; a web address's ? begins its query."""

_REMOTE = re.compile("(?!file:)[A-Za-z0-9+-]+://")

_FREE_BYTES = 1 << 28
"""Left free on the disk of the copies: an answer without an end would fill it."""
_SILENT_SECONDS = 60.0
"""A server that sends nothing for so long is given up; a slow one may take as long as it wants."""


def is_remote(path: str) -> bool:
    """Return whether the path is an address such as s3://bucket/x.npy."""
    return _REMOTE.match(path) is not None


@cache
def fetched(url: str) -> str:
    """Fetch a file, a folder or the files of a pattern; return the path, folder or pattern of the copies.

    The copies go when the process ends; messages about them name the address. Raises BadInput: fsspec or the package
    for the protocol is missing, nothing lies there, it cannot be fetched.
    """
    address = without_secrets(url).removesuffix("?…").rstrip("/")
    said = shown(address)
    if "::" in url:
        raise BadInput(
            f"{said}: found '::', expected one address; name a host by its name, and fetch archives yourself"
        )
    folder = tempfile.mkdtemp(prefix="gcbs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    COPIES[folder] = _above(address)
    place = address.removeprefix(_above(address))
    try:
        import fsspec

        files, path = fsspec.core.url_to_fs(url, **({"get_client": _client} if url.startswith("http") else {}))
        for file, target in _targets(files, path, place).items():
            target = folder + os.path.normpath(f"/{target}")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            files.get_file(file, target, callback=_stop_before_full(folder))
    except ImportError as error:
        raise BadInput(
            f"{said}: a package for it is missing ({one_line(error)}), expected fsspec and the protocol's own;"
            " pip install 'gcbs[remote]', and s3fs, gcsfs or adlfs"
        ) from None
    except FileNotFoundError:
        raise BadInput(f"{said}: file not found") from None
    except TimeoutError:
        raise BadInput(f"{said}: the server sent nothing for {_SILENT_SECONDS:g} s; try again later") from None
    except Exception as error:  # every protocol raises its own, and its words may repeat the address
        reason = one_line(error) if without_secrets(url) == url else type(error).__name__
        raise BadInput(f"{said}: cannot be fetched ({reason}); check address and access") from None
    return folder + place


async def _client(**settings: Any) -> Any:
    """A session for http that connects to no link-local address, where clouds keep their keys, redirected or not."""
    import aiohttp

    def connected(address: Any) -> socket.socket:
        if ip_address(address[4][0]).is_link_local:
            raise PermissionError(errno.EACCES, "a link-local address")
        return socket.socket(*address[:3])

    limits = aiohttp.ClientTimeout(total=None, sock_connect=_SILENT_SECONDS, sock_read=_SILENT_SECONDS)
    connector = aiohttp.TCPConnector(socket_factory=connected)
    return aiohttp.ClientSession(**settings, connector=connector, timeout=limits)


def _above(path: str) -> str:
    """The folder of a file or folder, or of the first part of a pattern that varies."""
    return _WILD.split(path)[0].rpartition("/")[0]


def _targets(files: Any, path: str, place: str) -> dict[str, str]:
    """Return the files to fetch, each with its place in the folder of the copies: equal names must not meet there."""
    if _WILD.search(place):
        found = files.glob(path)
    elif not path.startswith(("http://", "https://")) and files.isdir(path):  # to ask the web would fetch the file
        found = files.find(path)
    else:
        return {path: place}
    return {file: urlsplit(file.removeprefix(_above(path.rstrip("/")))).path for file in found}


def _stop_before_full(folder: str) -> Any:
    from fsspec.callbacks import Callback

    def check_disk(*_: object, **__: object) -> None:
        if shutil.disk_usage(os.path.dirname(folder)).free < _FREE_BYTES:
            raise OSError("the disk of the temporary folder is nearly full; name a larger one in TMPDIR")

    return Callback(hooks={"disk": check_disk})
