"""Protect models, logs, and secrets from other users, and ports of 127.0.0.1 from web pages.

A page of any site can send requests to ports of the computer on which the browser runs. The
browser marks them: with an Origin header (every POST, and every request whose answer the page
may read), or, where the page's own name was made to resolve to 127.0.0.1 (DNS rebinding), with
a Host header that holds the page's name. Programs send neither.

Sources: https://fetch.spec.whatwg.org/#origin-header, https://www.rfc-editor.org/rfc/rfc9112#section-3.2
"""

import functools
import os
from collections.abc import Sequence
from pathlib import Path


def create_private_folder(folder: Path) -> None:
    """Create a folder for its owner only, or restrict an existing one. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def write_atomically(file: Path, text: str) -> None:
    """Write a private file as a whole: readers see the old or the new one. Raises OSError."""
    beside = file.with_suffix(".part")
    beside.unlink(missing_ok=True)  # its mode could be another's
    with open(beside, "x", encoding="utf-8", opener=open_private) as opened:
        opened.write(text)
    beside.replace(file)


def open_private(path: str, flags: int) -> int:
    """Open with mode 0600, also an existing file, as in `open(…, opener=open_private)`."""
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80  # the only one that a Host header leaves out
_LONGEST_SHOWN = 100


@functools.cache  # asked for every connection
def list_own_hosts(port: int) -> frozenset[bytes]:
    """Return the values of a Host header, in lower case, that name a server on this port."""
    hosts = {f"{name}:{port}".encode() for name in _NAMES}
    if port == _HTTP_PORT:
        hosts |= {name.encode() for name in _NAMES}
    return frozenset(hosts)


def explain_rejection(
    allowed: frozenset[bytes], *, hosts: Sequence[bytes], origin: bytes | None, target: bytes
) -> tuple[int, str] | None:
    """Return the HTTP status and message for a rejected request, or None for an allowed one.

    `allowed`: see `list_own_hosts`. `hosts`: the values of all its Host headers. `origin`: the
    value of an Origin header, if there is one. `target`: the request line's second word.
    """
    if origin is not None:
        return 403, (
            f"Origin {_format_value(origin)}: requests from web pages are rejected; "
            "call this address from a program that sends no Origin header"
        )
    if len(hosts) != 1:
        count = "no Host header" if not hosts else f"{len(hosts)} Host headers"
        return 400, f"{count} in the request; send exactly one: {_join_hosts(allowed)}"
    if hosts[0].lower() not in allowed:
        return 403, (
            f"Host {_format_value(hosts[0])}: not an address of this server; allowed: {_join_hosts(allowed)}"
        )
    if not target.startswith(b"/"):
        problem = f"request target {_format_value(target)}: send only the path, starting with '/'"
        return 400, problem
    return None


def _format_value(value: bytes) -> str:
    return repr(value[:_LONGEST_SHOWN].decode("latin-1"))


def _join_hosts(allowed: frozenset[bytes]) -> str:
    return ", ".join(sorted(host.decode() for host in allowed))
