"""The outcome of a request, from what Locust reports of it."""

import json
import socket
import ssl
from typing import Any

OK = ""
TIMEOUT = "timeout"
_MOST_ERROR_BYTES = 4096


def describe_outcome(exception: BaseException | None, response: Any) -> tuple[str, str]:
    """Return (OK, TIMEOUT, or the kind of error such as "500" or "connection refused", the error's body)."""
    status = getattr(response, "status_code", 0) or 0
    if exception is None and status < 300:
        return OK, ""
    # A locustfile may reject a response of any status.
    rejected = exception is not None and 0 < status < 300
    if not status or rejected:
        return _describe_error(exception), ""
    content = (response.content or b"")[:_MOST_ERROR_BYTES]
    error_type = (response.headers or {}).get("x-amzn-errortype", "").partition(":")[0]
    kind = f"{status} {error_type}" if error_type else str(status)
    try:
        original = json.loads(content)["OriginalStatusCode"] if error_type else None
    except (ValueError, KeyError, TypeError):
        original = None
    if original is not None:
        kind += f", {original} from the container"
    return kind, content.decode(errors="replace").strip()


def _describe_error(error: BaseException | None) -> str:
    error = getattr(error, "original", error)  # of geventhttpclient's RetriesExceeded
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return TIMEOUT
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "address not found"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}"
    if isinstance(error, ConnectionError) or type(error).__name__ == "HTTPConnectionClosed":
        return "connection broken"
    if type(error).__name__ == "HTTPParseError":
        return "the response isn't HTTP"
    return str(error) or type(error).__name__
