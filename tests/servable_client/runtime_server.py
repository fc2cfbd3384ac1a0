"""SageMaker's runtime API and a little of S3 on 127.0.0.1, a model behind them, and whatever can go wrong."""

import json
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from servable_tensors import tensors, wire
from tests.http_stub import HttpStub, Response

RESET = -1
PROTOBUF = "application/x-protobuf"


@dataclass
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """`status` RESET breaks the connection without a word. `before_seconds` passes first."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    before_seconds: float = 0.0
    announced_bytes: int | None = None
    """Content-Length, where it is a lie."""


def inputs_of(body: bytes) -> dict[str, tensors.Array]:
    request = wire.PredictRequest.FromString(body)
    return {name: tensors.to_array(one) for name, one in request.inputs.items()}


def answering(outputs: Mapping[str, tensors.Array], **more: str) -> Reply:
    response = wire.PredictResponse()
    for name, array in outputs.items():
        response.outputs[name].CopyFrom(tensors.to_proto(array))
    return Reply(200, response.SerializeToString(), {"Content-Type": PROTOBUF} | more)


def doubled(received: Received) -> Reply:
    """y = 2 x."""
    return answering({"y": inputs_of(received.body)["x"] * 2})


def model_error(status: int, message: str = "no") -> Reply:
    said = {
        "ErrorCode": "INTERNAL_FAILURE_FROM_MODEL", "Message": f"Received {status} from primary",
        "OriginalStatusCode": status, "OriginalMessage": message,
    }  # fmt: skip
    return Reply(424, json.dumps(said).encode(), {"x-amzn-ErrorType": "ModelError"})


def service_error(status: int, code: str, message: str = "no", **headers: str) -> Reply:
    body = json.dumps({"message": message}).encode()
    return Reply(status, body, {"x-amzn-ErrorType": code} | headers)


class Server(HttpStub):
    """`answer` is asked for each invocation; S3's PUT and GET are answered from `objects`."""

    def __init__(self, answer: Callable[[Received], Reply]) -> None:
        self.answer = answer
        self.put: Callable[[Received], Reply] = lambda received: Reply()
        """S3's answer to a PUT, whose object is kept all the same."""
        self.get: Callable[[Received], Reply | None] = lambda received: None
        """In the place of S3's own answer to a GET."""
        self.received: list[Received] = []
        self.objects: dict[str, tuple[str, bytes]] = {}
        super().__init__(self._respond)

    def _respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> Response | None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        got = Received(handler.command, handler.path.partition("?")[0], headers, body)
        self.received.append(got)
        reply = self._choose_reply(got)
        time.sleep(reply.before_seconds)
        if reply.status == RESET:
            # With nothing left to wait for, closing sends a reset.
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.connection.close()
            return None
        if reply.announced_bytes is None:
            return reply.status, reply.headers, reply.body
        handler.close_connection = True
        length = {"Content-Length": str(reply.announced_bytes)}
        return reply.status, reply.headers | length, reply.body

    def _choose_reply(self, got: Received) -> Reply:
        if got.method == "POST":
            return self.answer(got)
        if got.method == "PUT":
            self.objects[got.path] = (got.headers["content-type"], got.body)
            return self.put(got)
        if found := self.objects.get(got.path):
            return self.get(got) or Reply(200, found[1], {"Content-Type": found[0]})
        return Reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
