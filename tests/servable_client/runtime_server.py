"""SageMaker's runtime API and a little of S3 on 127.0.0.1, a model behind them, and whatever can go wrong."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from servable_tensors import tensors, wire

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


class Server:
    """`answer` is asked for each invocation; S3's PUT and GET are answered from `objects`."""

    def __init__(self, answer: Callable[[Received], Reply]) -> None:
        self.answer = answer
        self.put: Callable[[Received], Reply] = lambda received: Reply()
        """S3's answer to a PUT, whose object is kept all the same."""
        self.get: Callable[[Received], Reply | None] = lambda received: None
        """In the place of S3's own answer to a GET."""
        self.received: list[Received] = []
        self.objects: dict[str, tuple[str, bytes]] = {}
        self.connections = 0
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                with server._lock:
                    server.connections += 1

            def do_POST(self) -> None:
                self._say(server.answer(self._kept()))

            def do_PUT(self) -> None:
                got = self._kept()
                server.objects[got.path] = (got.headers["content-type"], got.body)
                self._say(server.put(got))

            def do_GET(self) -> None:
                got = self._kept()
                reply = Reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
                if found := server.objects.get(got.path):
                    reply = server.get(got) or Reply(200, found[1], {"Content-Type": found[0]})
                self._say(reply)

            def _kept(self) -> Received:
                length = int(self.headers.get("Content-Length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                path = self.path.partition("?")[0]
                got = Received(self.command, path, headers, self.rfile.read(length))
                with server._lock:
                    server.received.append(got)
                return got

            def _say(self, reply: Reply) -> None:
                time.sleep(reply.before_seconds)
                if reply.status == RESET:
                    # With nothing left to wait for, closing sends a reset.
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.close_connection = True
                    self.connection.close()
                    return
                length = reply.announced_bytes
                headers = {"Content-Length": str(len(reply.body) if length is None else length)}
                lines = [f"HTTP/1.1 {reply.status} Said"]
                lines += [f"{name}: {value}" for name, value in (reply.headers | headers).items()]
                self.connection.sendall("\r\n".join([*lines, "", ""]).encode() + reply.body)
                if length is not None:
                    self.close_connection = True

            def handle(self) -> None:
                try:
                    super().handle()
                except (OSError, ValueError):
                    pass  # the client went away, or we closed it ourselves

            def finish(self) -> None:
                try:
                    super().finish()
                except (OSError, ValueError):
                    pass

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Listening(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Listening(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        target = self._server.serve_forever
        self._thread = threading.Thread(target=target, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
