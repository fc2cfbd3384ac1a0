"""What stands before every service: health, the caller's account, and failures in words."""

import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.sax.saxutils import escape

from local.aws.control_paths import PREFIX
from local.aws.controls import Controls

_Environ = dict[str, Any]
_Application = Callable[[_Environ, Callable[..., Any]], Iterable[bytes]]
# An access key of twelve digits is an account number: the caller is that account.
_ACCOUNT = re.compile(r"Credential=(\d{12})(?:/|%2F)")


class Gateway:
    """A WSGI application around another."""

    def __init__(self, application: _Application, controls: Controls) -> None:
        self._application = application
        self._controls = controls

    def __call__(self, environ: _Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "").startswith(PREFIX):
            return self._own(environ, start_response)
        signed = environ.get("HTTP_AUTHORIZATION") or environ.get("QUERY_STRING", "")
        if match := _ACCOUNT.search(signed):
            environ["HTTP_X_MOTO_ACCOUNT_ID"] = match.group(1)
        try:
            return self._application(environ, start_response)
        except Exception as error:
            # 501 and not 500: AWS clients retry a 500 for up to 50 s and then say nothing.
            traceback.print_exc()
            return _failure(environ, start_response, error)

    def _own(self, environ: _Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked = None
        if environ["REQUEST_METHOD"] == "POST":
            asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        found = self._controls.answer(environ["PATH_INFO"], asked)
        status, body = found or ("404 Not Found", {"error": "no such control"})
        return _answer(start_response, status, "application/json", body)


def _failure(
    environ: Mapping[str, Any], start_response: Callable[..., Any], error: Exception
) -> Iterable[bytes]:
    operation = environ.get("HTTP_X_AMZ_TARGET") or environ.get("PATH_INFO", "")
    said = f"The embedded AWS failed on {operation}: {type(error).__name__}: {error}"
    status = "501 Not Implemented"
    if "json" in environ.get("CONTENT_TYPE", ""):
        body = {"__type": "NotImplemented", "message": said}
        return _answer(start_response, status, "application/x-amz-json-1.1", body)
    xml = (
        "<ErrorResponse><Error><Type>Receiver</Type><Code>NotImplemented</Code>"
        f"<Message>{escape(said)}</Message></Error></ErrorResponse>"
    )
    start_response(status, [("Content-Type", "text/xml")], sys.exc_info())
    return [xml.encode()]


def _answer(
    start_response: Callable[..., Any], status: str, kind: str, body: Mapping[str, Any]
) -> Iterable[bytes]:
    start_response(status, [("Content-Type", kind)], sys.exc_info() if status[0] == "5" else None)
    return [json.dumps(body).encode()]
