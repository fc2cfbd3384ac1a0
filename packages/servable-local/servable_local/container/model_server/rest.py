"""TensorFlow Serving's REST interface on a port of 127.0.0.1, one thread per connection.

One thread reads, computes, and responds, without passing a request on: the cheapest way for
the few long connections of an NGINX or a handler.
Source: https://www.tensorflow.org/tfx/serving/api_rest
"""

import contextlib
import json
import re
import socket
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from servable_local.container.http_messages import (
    BadRequestError,
    HttpError,
    HttpRequest,
    HttpResponse,
    RequestReader,
    build_error,
    encode_response,
)
from servable_local.container.model_server import answers, predict_request
from servable_local.container.model_server.answers import format_columns, format_rows
from servable_local.container.model_server.runtime import Servables
from servable_local.container.ports import HOST, open_listener


def serve_rest(answer: Callable[[HttpRequest], HttpResponse], port: int) -> None:
    """Serve from now on, in threads that end with the process. Raises `OSError`."""
    listener = open_listener(port)

    def serve_caller(connection: socket.socket) -> None:
        # OSError: the caller hung up.
        with contextlib.suppress(OSError), connection:
            _serve_connection(connection, answer, port)

    def accept_connections() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve_caller, args=(connection,), daemon=True).start()

    threading.Thread(target=accept_connections, name=f"REST on {HOST}:{port}", daemon=True).start()


def _serve_connection(
    connection: socket.socket, answer: Callable[[HttpRequest], HttpResponse], port: int
) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader = RequestReader(port)
    while data := connection.recv(1 << 18):
        try:
            reader.feed(data)
        except BadRequestError as problem:
            reader.requests.append((build_error(400, str(problem)), False))
        if reader.wants_continue:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            reader.wants_continue = False
        while reader.requests:
            request, keep_alive = reader.requests.popleft()
            if isinstance(request, HttpResponse):
                connection.sendall(encode_response(request, keep_alive=False))
                return
            try:
                response = answer(request)
            except Exception as failure:
                traceback.print_exc()
                response = build_error(500, str(failure))
            head = request.method == "HEAD"
            connection.sendall(encode_response(response, keep_alive=keep_alive, head=head))
            if not keep_alive:
                return


_MODEL = r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]+))?"
_CALL = re.compile(_MODEL + r":(?P<method>predict|classify|regress)", re.IGNORECASE)
_STATUS = re.compile(_MODEL + r"(?P<metadata>/metadata)?", re.IGNORECASE)


@dataclass(frozen=True)
class RestInterface:
    """The REST interface: :predict, :classify, :regress, model status, and metadata."""

    servables: Servables

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Return a response, also to an invalid request: nothing that a caller sends raises."""
        call, status = _CALL.fullmatch(request.path), _STATUS.fullmatch(request.path)
        try:
            if call and request.method == "POST":
                return self._compute_call(call, request.body)
            if status and request.method == "GET":
                read = self._read_metadata if status["metadata"] else self._read_status
                return read(status)
        except HttpError as refusal:
            return build_error(refusal.status, refusal.message)
        if not request.path.lower().startswith("/v1/"):
            return build_error(404, "Not Found")
        return build_error(400, f"Malformed request: {request.method} {request.path}")

    def _compute_call(self, call: re.Match[str], body: bytes) -> HttpResponse:
        _, servable = self.servables.find_version(call["model"], _parse_version(call["version"]))
        method = call["method"].lower()
        if method != "predict":
            answer = answers.build_response(method, body, servable, self.servables.compute)
            return HttpResponse(200, answer)
        inputs = {name: signature.inputs for name, signature in servable.signatures.items()}
        request = predict_request.parse_request(body, inputs)
        signature = servable.signatures[request.signature]
        form = format_rows if request.rows else format_columns
        return HttpResponse(200, form(self.servables.compute(signature, request.arrays)))

    def _read_status(self, status: re.Match[str]) -> HttpResponse:
        model, version = status["model"], status["version"]
        versions = self.servables.list_versions(model)
        if not versions:
            raise HttpError(f"Could not find any versions of model {model}", 404)
        if version is not None:
            versions = [each for each in versions if each == _parse_version(version)]
            if not versions:
                raise HttpError(f"Could not find version {version} of model {model}", 404)
        fine = {"error_code": "OK", "error_message": ""}
        states = [{"version": str(v), "state": "AVAILABLE", "status": fine} for v in versions]
        return _build_json_response({"model_version_status": states})

    def _read_metadata(self, path: re.Match[str]) -> HttpResponse:
        number = _parse_version(path["version"])
        version, servable = self.servables.find_version(path["model"], number)
        signatures = {
            name: json_format.MessageToDict(
                signature.definition,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name, signature in servable.signatures.items()
        }
        spec = {"name": path["model"], "signature_name": "", "version": str(version)}
        metadata = {"signature_def": {"signature_def": signatures}}
        return _build_json_response({"model_spec": spec, "metadata": metadata})


def _parse_version(text: str | None) -> int | None:
    # More digits than any version has mean a version that is not there.
    return None if text is None else int(text[:20])


def _build_json_response(value: Any) -> HttpResponse:
    return HttpResponse(200, (json.dumps(value, indent=1) + "\n").encode())
