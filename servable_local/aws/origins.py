"""Where a request comes from: a program of this machine, never a page, whatever it is signed with.

A page can send to 127.0.0.1 what it likes, under its own name (Origin) or, after its name was
made to point here (DNS rebinding), under that name as Host. Programs do neither.
"""

import ipaddress
import re
from urllib.parse import unquote

from servable_local.aws.refusals import AccessError, Reason
from servable_local.aws.signed_request import Request

METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
# Twice any of these could be read as one thing here and as another by a service.
_ONCE = (
    "authorization",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-target",
)
_TARGET = re.compile(r"/[!\"$-~]*")
# moto's own pages and an instance's credentials: they ask for no signature.
_NOT_HERE = ("/moto-api", "/latest/meta-data", "/latest/api/", "/favicon.ico")


def check_origin(request: Request, port: int) -> None:
    """Raises AccessError."""
    if (origin := request.header("origin")) is not None:
        raise _refused(f"it comes from a page (Origin: {origin[:80]!r}); pages are not answered")
    for name in _ONCE:
        if len(request.all(name)) > 1:
            raise _refused(f"it has the header {name} twice")
    host = request.header("host")
    if host is None or not _is_ours(host, port):
        raise _refused(
            f"its Host is {(host or '')[:80]!r}; 127.0.0.1:{port} and localhost:{port} are answered"
        )
    if request.method not in METHODS:
        raise _refused(f"its method is {request.method[:20]}; {', '.join(METHODS)} are answered")
    if not _TARGET.fullmatch(request.target):
        raise _refused("its target is no path: it begins with / and is quoted ASCII")
    # As the services see it: unquoted, and with one slash before it.
    if ("/" + unquote(request.path).lstrip("/")).startswith(_NOT_HERE):
        raise _refused(f"{request.path[:80]} is not served here")


def _refused(said: str) -> AccessError:
    return AccessError(Reason.NOT_FROM_HERE, f"the embedded AWS does not take this request: {said}")


def _is_ours(host: str, port: int) -> bool:
    name, _, number = host.rpartition(":")
    if number != str(port):
        return False
    if name.lower() in ("localhost", "[::1]"):
        return True
    try:
        return ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False
