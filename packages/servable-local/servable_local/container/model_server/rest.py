"""TensorFlow Serving's REST interface on a port of 127.0.0.1, one thread per connection.

A thread reads, computes and answers without handing over to another: the cheapest way for
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
    HttpAnswer,
    HttpError,
    HttpRequest,
    RequestReader,
    encoded,
    error,
)
from servable_local.container.model_server import answers, predict_request
from servable_local.container.model_server.answers import as_columns, as_rows
from servable_local.container.model_server.runtime import Servables
from servable_local.container.ports import HOST, listening

_READ_BYTES = 1 << 18


def serve(answer: Callable[[HttpRequest], HttpAnswer], port: int) -> None:
    """Answers from now on, in threads that end with the process. Raises `OSError`."""
    listener = listening(port)

    def attend(connection: socket.socket) -> None:
        # OSError: the caller hung up.
        with contextlib.suppress(OSError), connection:
            _converse(connection, answer, port)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=attend, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, name=f"REST on {HOST}:{port}", daemon=True).start()


def _converse(
    connection: socket.socket, answer: Callable[[HttpRequest], HttpAnswer], port: int
) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader = RequestReader(port)
    while data := connection.recv(_READ_BYTES):
        try:
            reader.feed(data)
        except BadRequestError as problem:
            reader.requests.append((error(400, str(problem)), False))
        if reader.wants_continue:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            reader.wants_continue = False
        while reader.requests:
            request, keep_alive = reader.requests.popleft()
            if isinstance(request, HttpAnswer):
                connection.sendall(encoded(request, keep_alive=False))
                return
            try:
                response = answer(request)
            except Exception as failure:
                traceback.print_exc()
                response = error(500, str(failure))
            head = request.method == "HEAD"
            connection.sendall(encoded(response, keep_alive=keep_alive, head=head))
            if not keep_alive:
                return


_MODEL = r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]+))?"
_CALL = re.compile(_MODEL + r":(?P<method>predict|classify|regress)", re.IGNORECASE)
_STATUS = re.compile(_MODEL + r"(?P<metadata>/metadata)?", re.IGNORECASE)


@dataclass(frozen=True)
class RestInterface:
    """Answers :predict, :classify, :regress, model status and metadata."""

    servables: Servables

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Never raises for what a caller sent: a refusal is an answer."""
        call, status = _CALL.fullmatch(request.path), _STATUS.fullmatch(request.path)
        try:
            if call and request.method == "POST":
                return self._call(call, request.body)
            if status and request.method == "GET":
                return self._metadata(status) if status["metadata"] else self._status(status)
        except HttpError as refusal:
            return error(refusal.status, refusal.message)
        if not request.path.lower().startswith("/v1/"):
            return error(404, "Not Found")
        return error(400, f"Malformed request: {request.method} {request.path}")

    def _call(self, call: re.Match[str], body: bytes) -> HttpAnswer:
        _, servable = self.servables.find(call["model"], _number(call["version"]))
        method = call["method"].lower()
        if method != "predict":
            return HttpAnswer(200, answers.answer(method, body, servable, self.servables.compute))
        inputs = {name: signature.inputs for name, signature in servable.signatures.items()}
        request = predict_request.parse(body, inputs)
        signature = servable.signatures[request.signature]
        outputs = self.servables.compute(signature, request.arrays)
        form = as_rows if request.rows else as_columns
        return HttpAnswer(200, form(outputs))

    def _status(self, status: re.Match[str]) -> HttpAnswer:
        model, version = status["model"], status["version"]
        versions = self.servables.versions(model)
        if not versions:
            raise HttpError(404, f"Could not find any versions of model {model}")
        if version is not None:
            versions = [each for each in versions if each == _number(version)]
            if not versions:
                raise HttpError(404, f"Could not find version {version} of model {model}")
        fine = {"error_code": "OK", "error_message": ""}
        states = [{"version": str(v), "state": "AVAILABLE", "status": fine} for v in versions]
        return _json({"model_version_status": states})

    def _metadata(self, path: re.Match[str]) -> HttpAnswer:
        version, servable = self.servables.find(path["model"], _number(path["version"]))
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
        return _json({"model_spec": spec, "metadata": metadata})


def _number(text: str | None) -> int | None:
    # More digits than any version has mean a version that is not there.
    return None if text is None else int(text[:20])


def _json(value: Any) -> HttpAnswer:
    return HttpAnswer(200, (json.dumps(value, indent=1) + "\n").encode())
