"""Files elsewhere (s3://, gs://, hf://, https://): copied once by fsspec's cache, then read like files here."""

import errno
import re
import socket
from ipaddress import ip_address
from typing import Any

from gcbs_cli.data.files import in_order, is_hidden, one_line, shown
from gcbs_cli.system.errors import BadInput, without_secrets

_WILD = re.compile(r"[*\[]")
"""What makes an address a pattern; a web address's ? begins its query."""

_REMOTE = re.compile("(?!file:|local:)[A-Za-z0-9+-]+://")

_SILENT_SECONDS = 60.0
"""A server that sends nothing for so long is given up; a slow one may take as long as it wants."""

_METADATA_HOST = "fd00:ec2::254"
"""Where a cloud answers over IPv6 outside the link-local range."""


def is_remote(path: str) -> bool:
    """Return whether the path is an address such as s3://bucket/x.npy."""
    return _REMOTE.match(path) is not None


def fetch(url: str) -> dict[str, str]:
    """Copy a file, the files of a folder or those of a pattern; return where the copy of each address lies, in order.

    The copies go when the process ends. Raises BadInput: fsspec or the package for the protocol is missing, nothing
    lies there, it cannot be fetched.
    """
    address = shown(url)
    if "::" in url:  # a chain would go round the client below
        raise BadInput(
            f"{address}: found '::', expected one address; name a host by its name, and fetch archives yourself"
        )
    try:
        copies = _copies(url)
    except ImportError as error:
        raise BadInput(
            f"{address}: a package for it is missing ({one_line(error)}), expected fsspec and the protocol's own;"
            " pip install 'gcbs[remote]', and s3fs, gcsfs or adlfs"
        ) from None
    except FileNotFoundError:
        raise BadInput(f"{address}: file not found") from None
    except Exception as error:  # every protocol raises its own, and its words may repeat the address
        reason = one_line(error) if without_secrets(url) == url else type(error).__name__
        raise BadInput(f"{address}: cannot be fetched ({reason}); check address and access") from None
    return {name: copies[name] for name in in_order(url, copies)}


def _copies(url: str) -> dict[str, str]:
    """Return the copy of each address."""
    from fsspec.core import OpenFile, OpenFiles, url_to_fs
    from fsspec.implementations.cached import SimpleCacheFileSystem

    settings: dict[str, Any] = {}
    is_web = url.startswith(("http://", "https://"))
    if is_web:
        settings["get_client"] = _web_client
    files, path = url_to_fs(url, **settings)
    if _WILD.search(without_secrets(url)):
        places = files.glob(path)
        names = [files.unstrip_protocol(place) for place in places]
    elif not is_web and files.isdir(path):  # to ask the web would fetch the file
        folder = path.rstrip("/")
        places = [place for place in files.find(path) if not is_hidden(place.removeprefix(folder))]
        names = [url.rstrip("/") + place.removeprefix(folder) for place in places]
    else:
        places, names = [path], [url]
    cache = SimpleCacheFileSystem(fs=files)
    # Opened together, they are fetched without asking first whether each of them exists.
    with OpenFiles([OpenFile(cache, place) for place in places], fs=cache) as files_here:
        copies = {name: file.name for name, file in zip(names, files_here, strict=True)}
        for file in files_here:
            file.close()  # fsspec 2024 would leave it open
    return copies


async def _web_client(**settings: Any) -> Any:
    """A session that connects to no address where clouds keep their keys, redirected or not."""
    import aiohttp

    limits = aiohttp.ClientTimeout(total=None, sock_connect=_SILENT_SECONDS, sock_read=_SILENT_SECONDS)
    connector = aiohttp.TCPConnector(socket_factory=_socket)
    return aiohttp.ClientSession(**settings, connector=connector, timeout=limits)


def _socket(address: Any) -> socket.socket:
    """The socket for an address of getaddrinfo. Raises PermissionError for one of a cloud's metadata."""
    host = ip_address(address[4][0].partition("%")[0])
    host = getattr(host, "ipv4_mapped", None) or host  # Python 3.11 calls no mapped address link-local
    if host.is_link_local or str(host) == _METADATA_HOST:
        raise PermissionError(errno.EACCES, "a link-local address")
    return socket.socket(*address[:3])
