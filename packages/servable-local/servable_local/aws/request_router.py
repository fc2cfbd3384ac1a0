"""The front of all services: authentication, the caller's account, failures, and controls."""

import errno
import functools
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from moto.core.exceptions import ServiceException
from moto.moto_server.werkzeug_app import MotoRequestHandler

from servable_local import protection
from servable_local.aws.clock import Clock, ManualClock
from servable_local.aws.contents import (
    ENVIRON,
    IN_MEMORY_BYTES,
    ObjectContent,
    is_object_upload,
    receive_object,
)
from servable_local.aws.errors import AccessError, Reason, build_failure, build_rejection
from servable_local.aws.loopback import CLOCK_PATH, FAULT_PATH, HEALTH_PATH, SERVICE
from servable_local.aws.sagemaker.hosting import RegionalHosting
from servable_local.aws.sagemaker.instances import InstanceFaults
from servable_local.aws.signatures import VerifiedRequest, Verifier
from servable_local.aws.signed_request import ALGORITHM, ReceivedRequest

Answer = tuple[str, dict[str, Any]]
# (account, region) -> its hosted resources.
Target = Callable[[str, str], RegionalHosting]
_MILLISECONDS_PER_SECOND = 1000
# Kind of fault -> method of the local container.
_METHODS = {"latency_ms": "slow", "status": "fail", "queue_full": "fill_queue"}
_METHODS |= {name: name for name in ("freeze", "thaw", "kill")}
_ALLOWED = ", ".join([*_METHODS, "end", "overhead_ms", "start_seconds", "capacity"])


class Controls:
    """The paths that begin with /servable/, which the request router handles first."""

    def __init__(self, clock: Clock, target: Target) -> None:
        self._clock = clock
        self._target = target

    def respond(self, path: str, parameters: Mapping[str, Any] | None) -> Answer | None:
        """Return a status line and JSON, or None for other paths. `parameters` is a POST's body."""
        if path == HEALTH_PATH:
            return "200 OK", {"pid": os.getpid()}
        if path == CLOCK_PATH:
            clock = self._clock
            if parameters is not None and isinstance(clock, ManualClock):
                clock.advance(seconds=float(parameters["seconds"]))
            elif parameters is not None:
                return "409 Conflict", {"error": "this clock runs by itself and can't be advanced"}
            now, minute = clock.now().isoformat(), clock.seconds_per_minute
            return "200 OK", {"now": now, "seconds_per_minute": minute}
        if path == FAULT_PATH and parameters is not None:
            try:
                inject_faults(self._target, parameters)
            except (KeyError, ValueError, ServiceException) as error:
                return "400 Bad Request", {"error": str(error)}
            return "200 OK", {}
        return None


def inject_faults(target: Target, parameters: Mapping[str, Any]) -> None:
    """Inject faults into an endpoint's containers or instances, or into instance types.

    `parameters` contains account, region, and endpoint, and any of: latency_ms, status,
    queue_full; freeze, thaw, and kill, each with a part; overhead_ms, added by SageMaker itself;
    start_seconds, of a new instance on the clock; capacity, the maximum number of instances; end,
    which ends all faults. `no_capacity`, without an endpoint, replaces the Region's unavailable
    instance types. Raises ValueError with an explanation, or KeyError for a missing key.
    """
    hosting = target(parameters["account"], parameters["region"])
    if "no_capacity" in parameters:
        hosting.shortage.set_types(parameters["no_capacity"])
        return
    endpoint = hosting.endpoints.find(parameters["endpoint"])
    faults = {k: v for k, v in parameters.items() if k not in ("account", "region", "endpoint")}
    if "overhead_ms" in faults:
        endpoint.overhead_seconds = faults.pop("overhead_ms") / _MILLISECONDS_PER_SECOND
    if faults.get("end"):
        endpoint.overhead_seconds = 0.0
        endpoint.instance_faults = InstanceFaults()
    for kind in ("start_seconds", "capacity"):
        if kind in faults:
            setattr(endpoint.instance_faults, kind, faults.pop(kind))
    serving = [component.copies for component in hosting.list_components(endpoint)]
    for fleet in (endpoint.fleet, endpoint.rollout.fleet if endpoint.rollout else None):
        serving += [variant.instances for variant in fleet.variants.values()] if fleet else []
    for instances in serving:
        for container in list(instances.containers):
            for kind, value in faults.items():
                if kind == "end":
                    container.faults.end()
                    continue
                if kind not in _METHODS:
                    problem = f"{kind} isn't a fault that can be injected; allowed: {_ALLOWED}"
                    raise ValueError(problem)
                getattr(container.faults, _METHODS[kind])(value)


_Environ = dict[str, Any]
_Start = Callable[..., Any]
_Application = Callable[[_Environ, _Start], Iterable[bytes]]
_HEADERS = "servable.headers"
METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
# A full disk, a quota, and a file size limit.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# If one of these came twice, this module and a service could read different values.
_ONCE = ("authorization", "content-length", "content-type", "host", "transfer-encoding",
         "x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "x-amz-target")  # fmt: skip
_TARGET = re.compile(r"/[!\"$-~]*")
# moto's own pages, and an instance's credentials, which need no signature.
_NOT_HERE = ("/moto-api", "/latest/meta-data", "/latest/api/", "/favicon.ico")


def check_origin(request: ReceivedRequest, port: int) -> None:
    """Raise AccessError for a request that isn't from a program on this computer."""
    for name in _ONCE:
        if len(request.list_values(name)) > 1:
            raise _build_error(f"it has the header {name} twice")
    if request.method not in METHODS:
        allowed = ", ".join(METHODS)
        raise _build_error(f"its method is {request.method[:20]}; {allowed} are supported")
    if not _TARGET.fullmatch(request.target):
        raise _build_error("its target isn't a path; send quoted ASCII that begins with /")
    origin = request.find_header("origin")
    page = protection.explain_rejection(
        protection.list_own_hosts(port),
        hosts=[host.encode("latin-1", "replace") for host in request.list_values("host")],
        origin=None if origin is None else origin.encode("latin-1", "replace"),
        target=request.target.encode(),
    )
    if page is not None:
        raise _build_error(page[1])
    # As the services read it: unquoted, with one leading slash.
    if ("/" + unquote(request.path).lstrip("/")).startswith(_NOT_HERE):
        raise _build_error(f"{request.path[:80]} isn't served by the local AWS")


def _build_error(problem: str) -> AccessError:
    return AccessError(Reason.NOT_FROM_HERE, f"the local AWS rejects this request: {problem}")


class RequestHandler(MotoRequestHandler):
    """A handler that passes headers on unchanged: WSGI joins repeated ones."""

    def handle_expect_100(self) -> bool:
        """Leave the "100 Continue" to werkzeug, which would otherwise send a second one."""
        return True

    def make_environ(self) -> _Environ:
        environ = super().make_environ()
        headers = self.headers.items()
        environ[_HEADERS] = [(name, value.replace("\r\n", "")) for name, value in headers]
        return environ


@dataclass(frozen=True)
class RequestRouter:
    """A WSGI application that wraps the services'. `port` is the port of its server."""

    application: _Application
    controls: Controls
    verifier: Verifier
    port: int
    objects: Path

    def __call__(self, environ: _Environ, start_response: _Start) -> Iterable[bytes]:
        start_response = _remove_cors(start_response)
        request = ReceivedRequest(environ["REQUEST_METHOD"], environ["RAW_URI"], environ[_HEADERS])
        try:
            check_origin(request, self.port)
            read = functools.partial(self._read_body, environ, request)
            verified = self.verifier.verify(request, read)
        except AccessError as error:
            rejection = build_rejection(request, error)
            length = ("Content-Length", str(len(rejection.body)))
            start_response("403 Forbidden", [*rejection.headers.items(), length])
            return [] if request.method == "HEAD" else [rejection.body]
        if verified.scope.service == SERVICE:
            control = json.loads(bytes(verified.body)) if request.method == "POST" else None
            status, result = self.controls.respond(environ["PATH_INFO"], control) or (
                "404 Not Found",
                {"error": "no such control"},
            )
            start_response(status, [("Content-Type", "application/json")])
            return [json.dumps(result).encode()]
        _pass_verified(environ, request, verified)
        return self._call_application(request, environ, start_response)

    def _call_application(
        self, request: ReceivedRequest, environ: _Environ, start_response: _Start
    ) -> Iterable[bytes]:
        held: list[Any] = []
        try:
            answered = self.application(environ, lambda *begun: held.append(begun))
            status, headers = held[-1][:2]
            if status.startswith(("404", "405")):
                answered = list(answered)
                if b"".join(answered[:1]).lower().startswith(b"<!doctype html>"):
                    # The web server's own page: the service has no such path.
                    asked = f"{request.method} {request.path}"
                    raise NotImplementedError(f"{asked} isn't an operation of the local AWS")
        except Exception as error:
            if not isinstance(error, NotImplementedError):
                traceback.print_exc()
            operation = environ.get("HTTP_X_AMZ_TARGET") or environ.get("PATH_INFO", "")
            text = f"the local AWS failed on {operation}: {type(error).__name__}: {error}"
            failure = build_failure(request, text)
            # Not a 500, which AWS clients retry for up to 50 s.
            start_response("501 Not Implemented", [*failure.headers.items()], sys.exc_info())
            return [failure.body]
        start_response(status, headers)
        return answered

    def _read_body(
        self, environ: _Environ, request: ReceivedRequest, limit: int | None
    ) -> bytes | ObjectContent:
        """Read the whole body, to disk for a long object, allowed if the head is valid."""
        length = _read_length(environ, limit)
        if limit is None and length > IN_MEMORY_BYTES and is_object_upload(request):
            try:
                return receive_object(self.objects, request, environ["wsgi.input"], length)
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                raise AccessError(Reason.DISK, _explain_no_room(self.objects, error)) from None
        return bytes(environ["wsgi.input"].read(length))


def _explain_no_room(folder: Path, error: OSError) -> str:
    """Return why an object cannot be stored, and what to do."""
    remedy = f"make room in {folder}"
    if error.errno == errno.EFBIG:
        remedy = "raise the limit on the size of files (ulimit -f) and start the local AWS again"
    problem = f"the object cannot be stored in {folder}: {error.strerror}"
    return f"{problem}; {remedy}, then send it again"


def _read_length(environ: _Environ, limit: int | None) -> int:
    """Return the body's length. Raises AccessError if it exceeds `limit`, or is in chunks."""
    text, problem = environ.get("CONTENT_LENGTH") or "0", None
    if "HTTP_TRANSFER_ENCODING" in environ:
        problem = "its body has a Transfer-Encoding; send a Content-Length instead"
    elif not (text.isascii() and text.isdigit() and len(text) < 16):
        problem = f"its Content-Length is {text[:40]!r}; send a number"
    elif limit is not None and int(text) > limit:
        problem = f"its body has {text} bytes; above {limit}, send its hash in X-Amz-Content-Sha256"
    if problem:
        raise AccessError(Reason.FORM, problem)
    return int(text)


def _pass_verified(environ: _Environ, request: ReceivedRequest, verified: VerifiedRequest) -> None:
    """Pass the verified values to the services, instead of what a caller claims."""
    for name in [name for name in environ if name.startswith("HTTP_X_MOTO_")]:
        del environ[name]
    environ["HTTP_X_MOTO_ACCOUNT_ID"] = verified.account
    body = verified.body
    if isinstance(body, ObjectContent):
        environ[ENVIRON], body = body, b""
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    scope = verified.scope
    if request.is_signed_in_query:
        # moto reads the service from this header; without one, from the body and other headers.
        credential = f"{scope.access_key_id}/{scope.date}/{scope.region}/{scope.service}"
        environ["HTTP_AUTHORIZATION"] = f"{ALGORITHM} Credential={credential}/aws4_request,"


def _remove_cors(start_response: _Start) -> _Start:
    """Remove moto's CORS headers, which let every page, or S3's allowed ones, read responses."""

    def start_response_without_cors(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        kept = [header for header in headers if not header[0].lower().startswith("access-control-")]
        return start_response(status, kept, *more)

    return start_response_without_cors
