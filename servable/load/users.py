"""User classes of a load test: they sign requests, and count latency from when a request was due.

    class Visitor(EndpointUser):
        @task
        def predict(self):
            self.client.post("/invocations", json={"instances": [[1.0]]})

`servable load ENV --locustfile FILE` runs such a file. Importing this module imports Locust, which patches
the process for gevent.
"""

import bisect
import hashlib
import itertools
import json
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import gevent
import gevent.socket
from locust import FastHttpUser, constant, task
from locust.contrib.fasthttp import FastHttpSession
from locust.env import Environment

# isort: split
import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from requests import PreparedRequest, Session

from servable.measured.measurement import Body, LoadError, LoadTarget

# The key in a request's context.
DUE = "servable.due"
# Linux: with what is read comes when the kernel received it, by time.time(). Python has no name for it.
_SO_TIMESTAMPNS = 35
# So long before a request is due, no other user begins to prepare a request or to read a response: either
# takes Locust up to 0.8 ms on a core that has slept.
_ALONE_SECONDS = 0.001


class Timetable:
    """When the prepared requests of this process are due, and how they wait for it."""

    polled_seconds = 0.0
    """For so long a request waits actively, since timers are precise to a millisecond."""

    def __init__(self) -> None:
        self._dues: list[float] = []

    def wait_until(self, due: float) -> None:
        """Wait precisely. Other users run meanwhile, except in the last millisecond."""
        bisect.insort(self._dues, due)
        try:
            if (spare := due - self.polled_seconds - time.perf_counter()) > 0:
                gevent.sleep(spare)
            while (left := due - time.perf_counter()) > 0:
                if left > _ALONE_SECONDS or self._dues[0] < due:
                    _let_users_run()
        finally:
            self._dues.remove(due)

    def let_others_send(self) -> None:
        """Wait while other requests are due, which what this user does next would make late."""
        alone_seconds = min(_ALONE_SECONDS, self.polled_seconds)
        while self._dues and self._dues[0] < time.perf_counter() + alone_seconds:
            _let_users_run()


def _let_users_run() -> None:
    # sleep(0) doesn't look for responses. A lower priority never returns while there are some.
    gevent.idle(gevent.get_hub().loop.MAXPRI)


TIMETABLE = Timetable()


@dataclass
class Sending:
    """When a request was due, when Locust began to measure it, and when it was sent."""

    due: float
    lag_seconds: float  # how late this process was, without preparing the request and connecting
    began: float = float("inf")
    sent: float = float("inf")
    socket: Any = None


class TimedSocket(gevent.socket.socket):  # type: ignore[misc]
    """A socket that knows when its computer received what was read last, by time.perf_counter()."""

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        with suppress(OSError):  # a kernel that doesn't know it
            self.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def sendall(self, *arguments: Any) -> None:
        """Send, and let a server run that the kernel has put on this core."""
        super().sendall(*arguments)
        os.sched_yield()

    def recv(self, size: int, flags: int = 0) -> Any:
        """Return received bytes, as a socket does."""
        content, about, _, _ = self.recvmsg(size, 64, flags)
        for _, _, moment in about:
            seconds, nanoseconds = struct.unpack("ll", moment)
            age_seconds = time.time() - seconds - nanoseconds / 1e9
            self.received = time.perf_counter() - age_seconds
        TIMETABLE.let_others_send()
        return content


class EndpointUser(FastHttpUser):
    """A FastHttpUser whose latency counts from when its task was due, not from when it was sent.

    In an open loop each task is due at a time that doesn't depend on responses. If all users are busy, a
    task starts late, and the lateness is part of the latency of its first request. In a closed loop a
    task is due when `wait_time` is over. A class that overrides `context` must include this one's.
    """

    abstract = True
    wait_time = constant(0)
    insecure = False
    concurrency = 1
    due: float | None = None
    """When the task was due, by time.perf_counter(), until its first request; None in a closed loop."""
    lag_seconds = 0.0
    """How late the task started."""
    _sending: Sending | None = None

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        agent: Any = self.client.client
        send = agent._urlopen

        def send_when_due(request: Any) -> Any:
            if sending := self._sending:
                sending.began = min(sending.began, time.perf_counter())
                sockets = find_sockets(self, request.url_split)
                get_socket = type(sockets).get_socket

                def get_socket_when_due() -> Any:  # called when the request is complete
                    sending.socket = get_socket(sockets)
                    ready = time.perf_counter()
                    TIMETABLE.wait_until(sending.due)
                    sending.sent = time.perf_counter()
                    sending.lag_seconds += sending.sent - max(sending.due, ready)
                    return sending.socket

                sockets.get_socket = get_socket_when_due
            return send(request)

        agent._urlopen = send_when_due

    def context(self) -> dict[str, Any]:
        """Return the context of the request event: its Sending if it is a task's first request."""
        due, self.due = self.due, None
        if due is None:
            return {}
        self._sending = Sending(due, self.lag_seconds)
        return {DUE: self._sending}


def find_sockets(user: FastHttpUser, url: Any) -> Any:
    """Return geventhttpclient's pool of the sockets to a URL's host. It creates a TimedSocket."""
    sockets: Any = user.client.client.clientpool.get_client(url)._connection_pool
    if sys.platform == "linux":
        sockets._create_tcp_socket = TimedSocket
    return sockets


class BodyUser(EndpointUser):
    """A user that sends the bodies of `servable load --body` in their weighted mix."""

    requests: Iterator[tuple[str, dict[str, str], Any]]

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.client.client.cookiejar = None  # it costs time, and endpoints set no cookies

    def connect(self) -> None:
        """Connect, so that the first request doesn't wait for it. If that fails, the request will tell."""
        with suppress(OSError):
            sockets = find_sockets(self, str(self.host))
            sockets.return_socket(sockets.get_socket())

    @task
    def send(self) -> None:
        """Send the next body."""
        url, headers, content = next(self.requests)
        self.client.request("POST", url, data=content, headers=headers, allow_redirects=False)


def mix_requests(
    target: LoadTarget, bodies: Sequence[Body], *, seed: int
) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Yield (URL, headers, content) without end. The same seed gives the same order."""
    requests = [(*compose_request(target, body), body.content) for body in bodies]
    weights = [body.weight for body in bodies]
    # So many that the frequency of each body matches its weight.
    count = max(10_007, 4 * len(bodies))
    return itertools.cycle(random.Random(seed).choices(requests, weights, k=count))


def compose_request(target: LoadTarget, body: Body) -> tuple[str, dict[str, str]]:
    """Return (URL, headers) of a body, without the target's own headers."""
    headers = {"Content-Type": body.content_type, "Accept-Encoding": "identity"}
    if body.custom_attributes:
        headers["X-Amzn-SageMaker-Custom-Attributes"] = body.custom_attributes
    if body.accept:
        headers["Accept"] = body.accept
    if body.target_model and target.signing_region:
        headers["X-Amzn-SageMaker-Target-Model"] = body.target_model
    elif body.target_model:  # a container expects it in the path
        model = quote(body.target_model, safe="")
        return f"{target.origin}/models/{model}/invoke", headers
    return target.url, headers


# AWS accepts a signature for 5 minutes, and signing costs more than sending.
# Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
_SIGNED_FOR_SECONDS = 60.0
_MOST_SIGNATURES = 4096


class TargetHeaders:
    """The headers that a target needs on each request: its own, and a signature."""

    def __init__(self, target: LoadTarget) -> None:
        """Find the credentials if the target needs signed requests. Raises LoadError."""
        self._target = target
        self._signatures: dict[tuple[object, ...], dict[str, str]] = {}
        self._emptied_at = 0.0
        self._credentials = None
        if target.signing_region:
            self._credentials = botocore.session.Session().get_credentials()
            if self._credentials is None:
                raise LoadError("no AWS credentials were found; see `aws configure`")

    def add_to(self, client: Any) -> None:
        """Add the headers to every request that the client sends to the target, and to no other."""
        if not (self._target.headers or self._target.signing_region):
            return
        if isinstance(client, Session):

            def authenticate(request: PreparedRequest) -> PreparedRequest:
                self._add_headers(
                    str(request.method), str(request.url), request.headers, request.body
                )
                return request

            client.auth = authenticate
        elif isinstance(client, FastHttpSession):
            agent: Any = client.client
            send = agent._urlopen

            def send_with_headers(request: Any) -> Any:
                self._add_headers(request.method, request.url, request.headers, request.payload)
                return send(request)

            agent._urlopen = send_with_headers

    def _add_headers(self, method: str, url: str, headers: Any, body: Any) -> None:
        if not url.startswith(f"{self._target.origin}/"):
            return
        headers.update(self._target.headers)
        if self._credentials is None:
            return
        content = body.encode() if isinstance(body, str) else body or b""
        kept = {
            name: value
            for name, value in headers.items()
            if name.lower() == "content-type" or name.lower().startswith("x-amzn-")
        }
        key = (method, url, hashlib.sha256(content).digest(), *kept.items())
        now, signatures = time.monotonic(), self._signatures
        if now - self._emptied_at > _SIGNED_FOR_SECONDS or len(signatures) >= _MOST_SIGNATURES:
            signatures.clear()
            self._emptied_at = now
        if key not in signatures:
            request = AWSRequest(method, url, headers=kept, data=content)
            # Read for each signature, since they may expire.
            frozen = self._credentials.get_frozen_credentials()
            SigV4Auth(frozen, "sagemaker", self._target.signing_region).add_auth(request)
            signatures[key] = dict(request.headers.items())
        headers.update(signatures[key])


OK = ""
TIMEOUT = "timeout"
_MOST_ERROR_BYTES = 4096
# By the name of the exception's class, or of one of its bases.
_ERRORS = {
    "TimeoutError": TIMEOUT,
    "Timeout": TIMEOUT,
    "ConnectionRefusedError": "connection refused",
    "gaierror": "address not found",
    "SSLError": "TLS",
    "ConnectionResetError": "connection broken",
    "BrokenPipeError": "connection broken",
    "HTTPConnectionClosed": "connection broken",
    "HTTPParseError": "the response isn't HTTP",
}


def describe_outcome(exception: BaseException | None, response: Any) -> tuple[str, str]:
    """Return (outcome, body of the error response) of a request.

    The outcome is OK, TIMEOUT, or the kind of error, such as "500" or "connection refused".
    """
    status = getattr(response, "status_code", 0) or 0
    if exception is None and status < 300:
        return OK, ""
    if status < 300:  # there is no response, or a locustfile rejects it
        error = getattr(exception, "original", exception)  # of geventhttpclient's RetriesExceeded
        kinds = (_ERRORS.get(base.__name__) for base in type(error).__mro__)
        return next(filter(None, kinds), str(error) or type(error).__name__), ""
    content = (response.content or b"")[:_MOST_ERROR_BYTES]
    error_type = (response.headers or {}).get("x-amzn-errortype", "").partition(":")[0]
    kind = f"{status} {error_type}".rstrip()
    with suppress(ValueError, KeyError, TypeError):  # a body without the container's status
        if error_type:
            kind += f", {json.loads(content)['OriginalStatusCode']} from the container"
    return kind, content.decode(errors="replace").strip()
