"""TensorFlow Serving's gRPC interface on a port of 127.0.0.1: PredictionService and ModelService.

Source: https://github.com/tensorflow/serving (tensorflow_serving/apis/*.proto)
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
from tensorflow.python.framework import dtypes, tensor_util

from servable_local.container.http_messages import HttpError
from servable_local.container.model_server.answers import (
    Compute,
    classify,
    find_signature,
    regress,
)
from servable_local.container.model_server.predict_request import DEFAULT_SIGNATURE
from servable_local.container.model_server.runtime import STATUSES, LoadedVersion, Servables
from servable_local.container.ports import HOST
from servable_tensors import wire
from servable_tensors.tensors import Array
from servable_tensors.wire import DataType

# Type of a value -> field of TensorProto.
# Source: tensorflow/core/framework/tensor.proto
_FIELDS = {"float32": "float_val", "float64": "double_val", "int64": "int64_val"}
_FIELDS |= {"uint64": "uint64_val", "uint32": "uint32_val", "bool": "bool_val"}
_FIELDS |= dict.fromkeys(("int32", "int16", "int8", "uint16", "uint8"), "int_val")


def _to_array(name: str, proto: Any) -> Array:
    try:
        array: Array = tensor_util.MakeNdarray(proto)
    except (TypeError, ValueError) as problem:
        raise HttpError(f"Invalid tensor {name}: {problem}") from None
    return array


def write_tensor(array: Array, proto: Any) -> None:
    """Write the array to `proto`; tensor_content stays empty, as in the image's server."""
    kind = dtypes.as_dtype(array.dtype)
    proto.dtype = kind.as_datatype_enum
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if proto.dtype == DataType["DT_STRING"]:
        proto.string_val.extend(array.ravel().tolist())
    elif kind.name in _FIELDS:
        getattr(proto, _FIELDS[kind.name]).extend(array.ravel().tolist())
    elif kind.name in ("float16", "bfloat16"):
        proto.half_val.extend(array.ravel().view(np.uint16).tolist())
    else:
        proto.tensor_content = array.tobytes()


def compute_request(request: Any, servable: LoadedVersion, compute: Compute) -> dict[str, Array]:
    """Return the wanted outputs of a PredictRequest. Raises `HttpError`."""
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    if name not in servable.signatures:
        raise HttpError(f'Serving signature key "{name}" not found.')
    signature = servable.signatures[name]
    outputs = list(request.output_filter)
    _check_names(f"{name} input", set(request.inputs), set(signature.inputs), exactly=True)
    _check_names(f"{name} output", set(outputs), set(signature.outputs), exactly=False)
    arrays = {key: _to_array(key, request.inputs[key]) for key in signature.inputs}
    for key, array in arrays.items():
        dtype, expected = dtypes.as_dtype(array.dtype).name, signature.inputs[key]
        if dtype != expected:
            raise HttpError(f"input {key} expected type: {expected} but got: {dtype}")
    computed = compute(signature, arrays)
    return {key: array for key, array in computed.items() if not outputs or key in outputs}


@dataclass(frozen=True)
class GrpcInterface:
    """The gRPC interface, with one method for each call; each raises `HttpError`."""

    servables: Servables

    def map_methods(self) -> dict[str, dict[str, tuple[Callable[[Any], Any], Any]]]:
        """Return service -> call -> (method, its request's message)."""
        return {
            "tensorflow.serving.PredictionService": {
                "Predict": (self.predict, wire.PredictRequest),
                "Classify": (self.classify, wire.ClassificationRequest),
                "Regress": (self.regress, wire.RegressionRequest),
                "GetModelMetadata": (self.read_metadata, wire.GetModelMetadataRequest),
            },
            "tensorflow.serving.ModelService": {
                "GetModelStatus": (self.read_status, wire.GetModelStatusRequest)
            },
        }

    def predict(self, request: Any) -> Any:
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        servable, response = self._begin_response(request, wire.PredictResponse(), name)
        for key, array in compute_request(request, servable, self.servables.compute).items():
            write_tensor(array, response.outputs[key])
        return response

    def classify(self, request: Any) -> Any:
        name = request.model_spec.signature_name
        servable, response = self._begin_response(request, wire.ClassificationResponse(), name)
        signature = find_signature(servable, name, "classify")
        serialized = request.input.example_list.examples
        for row in classify(signature, serialized, self.servables.compute):
            classes = response.result.classifications.add().classes
            for label, score in row:
                classes.add(label=label, score=score)
        return response

    def regress(self, request: Any) -> Any:
        name = request.model_spec.signature_name
        servable, response = self._begin_response(request, wire.RegressionResponse(), name)
        signature = find_signature(servable, name, "regress")
        serialized = request.input.example_list.examples
        for value in regress(signature, serialized, self.servables.compute):
            response.result.regressions.add(value=value)
        return response

    def read_metadata(self, request: Any) -> Any:
        if list(request.metadata_field) != ["signature_def"]:
            raise HttpError("metadata_field must be signature_def")
        servable, response = self._begin_response(request, wire.GetModelMetadataResponse(), "")
        signatures = wire.SignatureDefMap()
        for name, signature in servable.signatures.items():
            text = signature.definition.SerializeToString()
            signatures.signature_def[name].ParseFromString(text)
        metadata = response.metadata["signature_def"]
        metadata.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
        metadata.value = signatures.SerializeToString()
        return response

    def read_status(self, request: Any) -> Any:
        spec = request.model_spec
        versions = self.servables.list_versions(spec.name)
        if spec.HasField("version"):
            versions = [version for version in versions if version == spec.version.value]
        if not versions:
            raise HttpError(f"Could not find any versions of model {spec.name}", 404)
        response = wire.GetModelStatusResponse()
        for version in versions:  # 30: AVAILABLE of ModelVersionStatus.State in the .proto
            response.model_version_status.add(version=version, state=30)
        return response

    def _begin_response(self, request: Any, response: Any, signature: str) -> tuple[Any, Any]:
        """Return the request's servable, and the response with its name and version."""
        spec = request.model_spec
        if not spec.name:
            raise HttpError("Missing ModelSpec")
        version = spec.version.value if spec.HasField("version") else None
        number, servable = self.servables.find_version(spec.name, version)
        response.model_spec.name, response.model_spec.signature_name = spec.name, signature
        response.model_spec.version.value = number
        return servable, response


def _check_names(part: str, names: set[str], allowed: set[str], *, exactly: bool) -> None:
    extra, missing = sorted(names - allowed), sorted(allowed - names) if exactly else []
    if extra or missing:
        fits = f"extra {extra}, missing {missing}; the signature has {sorted(allowed)}"
        raise HttpError(f"{part} names do not fit: {fits}")


_CODES = {code.value[0]: code for code in grpc.StatusCode}
_CODE_OF_STATUS = {status: code for code, status in sorted(STATUSES.items(), reverse=True)}


def serve_grpc(interface: GrpcInterface, port: int) -> "grpc.Server":
    """Serve from now on, in threads. Raises `OSError` if the port is unavailable."""
    server = grpc.server(
        # Calls computed at once: as many as the image's server runs of a slow model, with four
        # threads for each vCPU of a large instance.
        ThreadPoolExecutor(64, thread_name_prefix="gRPC"),
        # As the image's server: requests of any size come in; the limit is the caller's.
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    for service, methods in interface.map_methods().items():
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                _abort_on_error(method),
                request.FromString,
                lambda answer: answer.SerializeToString(),
            )
            for name, (method, request) in methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    try:
        server.add_insecure_port(f"{HOST}:{port}")
    except RuntimeError as error:
        raise OSError(str(error)) from None
    server.start()
    return server


def _abort_on_error(method: Callable[[Any], Any]) -> Callable[[Any, "grpc.ServicerContext"], Any]:
    def call(request: Any, context: "grpc.ServicerContext") -> Any:
        try:
            return method(request)
        except HttpError as refusal:
            code = _CODES[_CODE_OF_STATUS.get(refusal.status, 13)]
            context.abort(code, refusal.message)

    return call
