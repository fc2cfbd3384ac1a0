"""A model server for the handler's tests: gRPC and REST, small signatures, faults on request.

serving_default: x float32 [any, 3] -> y float32 [any], the sum of each row;
echo_TYPE: v of that type -> v; two: a int64 [any], b string [any] -> both;
image: pixels float32 [any, 2, 2, 1], size float32 [any].
"""

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any, Self

import grpc
import numpy as np

from servable_tensors import wire
from servable_tensors.tensors import to_array, to_proto
from tests.http_stub import HttpStub, Response

ECHOED = [n for n in range(1, 24) if n not in (20, 21)]
SIGNATURES: dict[str, dict[str, tuple[int, list[int] | None]]] = {
    "serving_default": {"x": (1, [-1, 3])},
    "two": {"a": (9, [-1]), "b": (7, [-1])},
    "image": {"pixels": (1, [-1, 2, 2, 1]), "size": (1, [-1])},
    **{f"echo_{wire.find_dtype_name(number)}": {"v": (number, None)} for number in ECHOED},
}


class FakeModelServer(HttpStub):
    """`requests` holds what came, (method or path, bytes)."""

    def __init__(self, options: Mapping[str, int] = {}) -> None:
        """`options`: of gRPC's server."""
        super().__init__(self._rest)
        self.rest_port = self.server_port
        self._options = options
        self.requests: list[tuple[str, bytes]] = []
        self.delay_seconds = 0.0
        self.rest_answer: tuple[int, bytes] | None = None

    def __enter__(self) -> Self:
        options = {"grpc.max_receive_message_length": -1, "grpc.so_reuseport": 0, **self._options}
        self._grpc = grpc.server(ThreadPoolExecutor(8), options=[*options.items()])
        self._grpc.add_generic_rpc_handlers([_Methods(self)])
        self.grpc_port = self._grpc.add_insecure_port("127.0.0.1:0")
        self._grpc.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._grpc.stop(None)
        super().__exit__()

    @property
    def ports(self) -> tuple[int, int]:
        """Of gRPC and REST."""
        return self.grpc_port, self.rest_port

    @property
    def variables(self) -> dict[str, str]:
        """As the container gives them to the code."""
        return {"TFS_GRPC_PORTS": str(self.grpc_port), "TFS_REST_PORTS": str(self.rest_port)}

    def context(self, **changed: Any) -> Any:
        return build_context(self.rest_port, self.grpc_port, **changed)

    def grpc_answer(self, method: str, body: bytes, context: Any) -> bytes:
        if method == "GetModelStatus":
            return b""  # what a process tries a server with, before its first request
        self.requests.append((method, body))
        time.sleep(self.delay_seconds)
        if method == "GetModelMetadata":
            asked = wire.GetModelMetadataRequest.FromString(body)
            if asked.model_spec.name != "m":
                context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found for request")
            return bytes(metadata().SerializeToString())
        if method != "Predict":
            return body
        request = wire.PredictRequest.FromString(body)
        if request.model_spec.name != "m" or request.model_spec.version.value > 1:
            context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found for request")
        response = wire.PredictResponse()
        arrays = {name: to_array(tensor) for name, tensor in request.inputs.items()}
        if request.model_spec.signature_name in ("", "serving_default"):
            x = arrays.get("x", np.zeros(()))
            if x.ndim != 2 or x.dtype != np.float32:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no x")
            with np.errstate(all="ignore"):
                response.outputs["y"].CopyFrom(to_proto(x.sum(axis=1)))
        else:
            for name, tensor in request.inputs.items():
                response.outputs[name].CopyFrom(tensor)
        return bytes(response.SerializeToString())

    def _rest(self, handler: BaseHTTPRequestHandler, body: bytes) -> Response:
        status, answer = self.rest_answers(handler.path, body)
        return status, {}, answer

    def rest_answers(self, path: str, body: bytes) -> tuple[int, bytes]:
        self.requests.append((path, body))
        time.sleep(self.delay_seconds)
        if self.rest_answer:
            return self.rest_answer
        if not path.startswith("/v1/models/m"):
            return 404, b'{"error": "Servable not found for request"}'
        try:
            parsed = json.loads(body)
            key = "instances" if "instances" in parsed else "inputs"
            value = parsed[key]
            if parsed.get("signature_name", "serving_default") != "serving_default":
                return 200, json.dumps({"outputs": value}).encode()
            rows = value["x"] if key == "inputs" and isinstance(value, dict) else value
            rows = [row["x"] if isinstance(row, dict) else row for row in rows]
            sums = np.array(rows, np.float32).reshape(-1, 3).sum(axis=1).tolist()
        except Exception as error:  # whatever a damaged body leads to
            return 400, json.dumps({"error": f"{type(error).__name__}"}).encode()
        return 200, json.dumps({"predictions" if key == "instances" else "outputs": sums}).encode()


def build_context(rest_port: int, grpc_port: int, /, **changed: Any) -> Any:
    """What the container tells the handler of a request; attributes replace its defaults."""
    told = {
        "model_name": None, "model_version": None, "method": None,
        "rest_uri": f"http://localhost:{rest_port}/v1/models/m:predict",
        "grpc_port": str(grpc_port), "channel": None, "custom_attributes": None,
        "request_content_type": "application/json", "accept_header": "application/json",
        "content_length": None, "timeout": 20,
    }  # fmt: skip
    return SimpleNamespace(**{**told, **changed})


def metadata() -> Any:
    found = wire.SignatureDefMap()
    for name, inputs in SIGNATURES.items():
        signature = found.signature_def[name]
        for key, (number, shape) in inputs.items():
            for info in (signature.inputs[key], signature.outputs[key]):
                info.dtype = number
                info.tensor_shape.unknown_rank = shape is None
                for size in shape or []:
                    info.tensor_shape.dim.add(size=size)
    default = found.signature_def["serving_default"]
    del default.outputs["x"]
    default.outputs["y"].dtype = 1
    default.outputs["y"].tensor_shape.dim.add(size=-1)
    response = wire.GetModelMetadataResponse()
    response.metadata["signature_def"].value = found.SerializeToString()
    return response


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, fake: FakeModelServer) -> None:
        self._fake = fake

    def service(self, call: Any) -> Any:
        method = call.method.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(
            lambda body, context: self._fake.grpc_answer(method, body, context)
        )
