"""Requests as bytes on the wire, signed for SageMaker, in the weighted mix; and the connection they go over.

Each connection is kept: a request goes out, its answer is read, nothing is ever sent twice.
gevent's sockets and llhttp's parser (httptools). Locust's own FastHttpUser costs more CPU for each
request, which on two cores moves the knee by 8 % (docs/decisions/0022-load.md).
"""

import itertools
import json
import random
import select
import socket
import ssl
import time
from urllib.parse import quote

import botocore.session
import httptools
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from servable.load.load_target import Body, LoadTarget


class MissingCredentialsError(Exception):
    """No AWS credentials were found. `str()` is a whole sentence."""


class Signer:
    """Signs with the shell's credentials, which are read for each signature since they may expire."""

    def __init__(self, target: LoadTarget) -> None:
        self._target = target
        self._credentials = botocore.session.Session().get_credentials()
        if self._credentials is None:
            raise MissingCredentialsError("no AWS credentials were found; see `aws configure`")

    def signed(self, headers: dict[str, str], body: bytes) -> dict[str, str]:
        request = AWSRequest("POST", self._target.url, headers=headers, data=body)
        frozen = self._credentials.get_frozen_credentials()
        SigV4Auth(frozen, "sagemaker", self._target.signing_region).add_auth(request)
        return dict(request.headers.items())


# A signature is good for 5 minutes, for the same bytes as often as they are sent; signing costs
# more than sending. Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
SIGNED_FOR_SECONDS = 60.0
# Long enough that each body comes as often as its weight says.
_ROUND = 10_007


class PreparedRequests:
    """`next()`: the bytes of one request. The same seed gives the same order."""

    def __init__(self, target: LoadTarget, bodies: list[Body], *, seed: int) -> None:
        self._target = target
        self._bodies = bodies
        self._signer = Signer(target) if target.signing_region else None
        self._bytes: list[bytes | None] = [None] * len(bodies)
        self._made_at = [0.0] * len(bodies)
        length = max(_ROUND, 4 * len(bodies))
        weights = [body.weight for body in bodies]
        order = random.Random(seed).choices(range(len(bodies)), weights, k=length)
        self._order = itertools.cycle(order)

    def next(self) -> bytes:
        number = next(self._order)
        prepared = self._bytes[number]
        if prepared is None or (
            self._signer and time.monotonic() - self._made_at[number] > SIGNED_FOR_SECONDS
        ):
            body = self._bodies[number]
            prepared = self._bytes[number] = request_bytes(self._target, body, self._signer)
            self._made_at[number] = time.monotonic()
        return prepared


def request_bytes(target: LoadTarget, body: Body, signer: Signer | None) -> bytes:
    """Return a request as it goes over the connection; signed if there is a signer."""
    headers = {
        "Host": target.parts.netloc.rpartition("@")[2],
        "Content-Type": body.content_type,
        **target.headers,
    }
    if body.custom_attributes:
        headers["X-Amzn-SageMaker-Custom-Attributes"] = body.custom_attributes
    if body.accept:
        headers["Accept"] = body.accept
    path = (target.parts.path or "/") + (f"?{target.parts.query}" if target.parts.query else "")
    if body.target_model and signer:
        headers["X-Amzn-SageMaker-Target-Model"] = body.target_model
    elif body.target_model:  # a container takes it in the path
        path = f"/models/{quote(body.target_model, safe='')}/invoke"
    if signer:
        headers = signer.signed(headers, body.content)
    headers["Content-Length"] = str(len(body.content))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body.content


OK = ""
TIMEOUT = "timeout"
# After so long without a request the server may have hung up.
_IDLE_SECONDS = 0.5
_MOST_ERROR_BYTES = 4096
# Most connections at once in one process: below the usual limit of open files.
MOST_UNDER_WAY = 4000


class Connection:
    """Connection to one target, opened when it is first needed. For one caller at a time."""

    def __init__(
        self, target: LoadTarget, encryption: ssl.SSLContext | None, *, keep_answers: bool = False
    ) -> None:
        """`keep_answers`: whole answers are wanted, and not only whether they are errors."""
        self.target = target
        self._keep_answers = keep_answers
        self._encryption = encryption
        self._socket: socket.socket | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._complete = False
        self._status = 0
        self._keeps = False
        self._used_at = 0.0
        self.on_message_begin()

    def ask(self, request: bytes) -> str:
        """Send a request. Return OK, TIMEOUT, or the kind of error: "500", "connection refused"."""
        deadline = time.perf_counter() + self.target.timeout_seconds
        self._complete = False
        self._status = 0
        try:
            open_socket = self._opened()
            open_socket.sendall(request)
            parser = self._parser
            assert parser is not None  # comes with the socket
            while not self._complete:
                data = open_socket.recv(65536)
                if not data:
                    raise ConnectionError("closed before the answer was whole")
                parser.feed_data(data)
                if not self._complete and time.perf_counter() > deadline:
                    raise TimeoutError
        except BaseException as error:
            self.close()
            if isinstance(error, httptools.HttpParserError):
                return "the answer is no HTTP"
            if isinstance(error, OSError):
                return _kind(error)
            raise  # a caller that is ended in the middle of it
        if self._keeps:
            self._used_at = time.perf_counter()
        else:
            self.close()
        return OK if 200 <= self._status < 300 else self._kind_of_refusal()

    @property
    def status(self) -> int | None:
        """HTTP status of the last answer; None if it did not come, or not whole."""
        return self._status if self._complete else None

    @property
    def refusal(self) -> str:
        """Body of the last answer if that was an error, its first 4,096 bytes; else empty."""
        return self._error_body.decode(errors="replace").strip() if self._complete else ""

    @property
    def answer(self) -> bytes:
        """Body of the last answer, with `keep_answers`; empty if it did not come whole."""
        return b"".join(self._answer) if self._complete else b""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = self._parser = None

    def _opened(self) -> socket.socket:
        if self._socket is not None and time.perf_counter() - self._used_at > _IDLE_SECONDS:
            # Readable without having been asked: the server has hung up.
            ready, _, _ = select.select([self._socket], [], [], 0)
            if ready:
                self.close()
        if self._socket is None:
            host, port = self.target.parts.hostname or "", self.target.parts.port
            address = (host, port or (443 if self.target.encrypted else 80))
            opened = socket.create_connection(address, timeout=self.target.timeout_seconds)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._encryption is not None:
                opened = self._encryption.wrap_socket(opened, server_hostname=host)
            self._socket = opened
            self._parser = httptools.HttpResponseParser(self)
        return self._socket

    # --- what the parser calls

    def on_message_begin(self) -> None:
        self._failed = False
        self._error_type, self._error_body = "", b""
        self._answer: list[bytes] = []
        self.content_type = ""
        """Content type of the last answer, with `keep_answers`."""

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"x-amzn-errortype":
            self._error_type = value.decode(errors="replace").partition(":")[0]
        elif name == b"content-type" and self._keep_answers:
            self.content_type = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._failed = self._parser.get_status_code() >= 300

    def on_body(self, body: bytes) -> None:
        if self._keep_answers:
            self._answer.append(body)
        if self._failed and len(self._error_body) < _MOST_ERROR_BYTES:
            self._error_body += body

    def on_message_complete(self) -> None:
        assert self._parser is not None
        # Asked here: afterwards the parser is at the next message, and knows no more.
        self._status, self._keeps = self._parser.get_status_code(), self._parser.should_keep_alive()
        # 100 Continue and its like come before the answer.
        self._complete = self._status >= 200

    def _kind_of_refusal(self) -> str:
        status = self._status
        if not self._error_type:
            return str(status)
        try:
            original = json.loads(self._error_body)["OriginalStatusCode"]
        except (ValueError, KeyError, TypeError):
            return f"{status} {self._error_type}"
        return f"{status} {self._error_type}, {original} from the container"


def _kind(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return TIMEOUT
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "address not found"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}"
    if isinstance(error, ConnectionError):
        return "connection broken"
    return error.strerror or type(error).__name__
