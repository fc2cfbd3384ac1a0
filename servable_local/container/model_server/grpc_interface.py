"""TensorFlow Serving's gRPC interface on a port of 127.0.0.1: PredictionService and ModelService.

Source: https://github.com/tensorflow/serving (tensorflow_serving/apis/*.proto)
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from servable_local.container.http_messages import HttpError
from servable_local.container.model_server import examples, proto_tensors
from servable_local.container.model_server.runtime import STATUSES, Servables
from servable_local.container.ports import HOST
from servable_tensors import wire

_AVAILABLE = 30  # ModelVersionStatus.State in get_model_status.proto


class GrpcInterface:
    """One method for each call; each raises `HttpError`."""

    def __init__(self, servables: Servables) -> None:
        self._servables = servables

    def methods(self) -> dict[str, dict[str, tuple[Callable[[Any], Any], Any]]]:
        """Service -> call -> (method, its request's message)."""
        return {
            "tensorflow.serving.PredictionService": {
                "Predict": (self.predict, wire.PredictRequest),
                "Classify": (self.classify, wire.ClassificationRequest),
                "Regress": (self.regress, wire.RegressionRequest),
                "GetModelMetadata": (self.metadata, wire.GetModelMetadataRequest),
            },
            "tensorflow.serving.ModelService": {
                "GetModelStatus": (self.status, wire.GetModelStatusRequest),
            },
        }

    def predict(self, request: Any) -> Any:
        version, servable = self._find(request.model_spec)
        name = request.model_spec.signature_name or "serving_default"
        if name not in servable.signatures:
            raise HttpError(400, f'Serving signature key "{name}" not found.')
        signature = servable.signatures[name]
        wanted = list(request.output_filter)
        _check(f"{name} input", set(request.inputs), set(signature.inputs), exactly=True)
        _check(f"{name} output", set(wanted), set(signature.outputs), exactly=False)
        arrays = {key: proto_tensors.to_array(key, request.inputs[key]) for key in signature.inputs}
        for key, array in arrays.items():
            proto_tensors.check_type(key, array, signature.inputs[key])
        found = self._servables.compute(signature, arrays)
        response = wire.PredictResponse()
        _describe(response.model_spec, request.model_spec.name, version, name)
        for key, array in found.items():
            if not wanted or key in wanted:
                proto_tensors.write(array, response.outputs[key])
        return response

    def classify(self, request: Any) -> Any:
        version, servable = self._find(request.model_spec)
        name = request.model_spec.signature_name
        signature = examples.checked(servable, name, "classify")
        serialized = request.input.example_list.examples
        response = wire.ClassificationResponse()
        _describe(response.model_spec, request.model_spec.name, version, name)
        for row in examples.classify(signature, serialized, self._servables.compute):
            found = response.result.classifications.add()
            for label, score in row:
                found.classes.add(label=label, score=score)
        return response

    def regress(self, request: Any) -> Any:
        version, servable = self._find(request.model_spec)
        name = request.model_spec.signature_name
        signature = examples.checked(servable, name, "regress")
        serialized = request.input.example_list.examples
        response = wire.RegressionResponse()
        _describe(response.model_spec, request.model_spec.name, version, name)
        for value in examples.regress(signature, serialized, self._servables.compute):
            response.result.regressions.add(value=value)
        return response

    def metadata(self, request: Any) -> Any:
        if list(request.metadata_field) != ["signature_def"]:
            raise HttpError(400, "metadata_field must be signature_def")
        version, servable = self._find(request.model_spec)
        signatures = wire.SignatureDefMap()
        for name, signature in servable.signatures.items():
            text = signature.definition.SerializeToString()
            signatures.signature_def[name].ParseFromString(text)
        response = wire.GetModelMetadataResponse()
        _describe(response.model_spec, request.model_spec.name, version, "")
        kept = response.metadata["signature_def"]
        kept.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
        kept.value = signatures.SerializeToString()
        return response

    def status(self, request: Any) -> Any:
        spec = request.model_spec
        versions = self._servables.versions(spec.name)
        if spec.HasField("version"):
            versions = [known for known in versions if known == spec.version.value]
        if not versions:
            raise HttpError(404, f"Could not find any versions of model {spec.name}")
        response = wire.GetModelStatusResponse()
        for version in versions:
            response.model_version_status.add(version=version, state=_AVAILABLE)
        return response

    def _find(self, spec: Any) -> tuple[int, Any]:
        if not spec.name:
            raise HttpError(400, "Missing ModelSpec")
        return self._servables.find(
            spec.name, spec.version.value if spec.HasField("version") else None
        )


def _describe(spec: Any, name: str, version: int, signature: str) -> None:
    spec.name, spec.version.value, spec.signature_name = name, version, signature


def _check(what: str, given: set[str], known: set[str], *, exactly: bool) -> None:
    extra, missing = sorted(given - known), sorted(known - given) if exactly else []
    if extra or missing:
        raise HttpError(
            400,
            f"{what} names do not fit: extra {extra}, missing {missing}; "
            f"the signature has {sorted(known)}",
        )


# Calls computed at once. Of a slow model that many are under way together, as with the
# image's server, whose threads are four for each vCPU of a large instance.
THREADS = 64
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_CODE_OF_STATUS = {status: code for code, status in sorted(STATUSES.items(), reverse=True)}


def serve(interface: GrpcInterface, port: int) -> "grpc.Server":
    """Answers from now on. Raises `OSError` when the port cannot be had."""
    server = grpc.server(
        ThreadPoolExecutor(THREADS, thread_name_prefix="gRPC"),
        # As the image's server: requests of any size come in; the limit is the caller's.
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    for service, methods in interface.methods().items():
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                _refusing(method), request.FromString, lambda answer: answer.SerializeToString()
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


def _refusing(method: Callable[[Any], Any]) -> Callable[[Any, "grpc.ServicerContext"], Any]:
    def call(request: Any, context: "grpc.ServicerContext") -> Any:
        try:
            return method(request)
        except HttpError as refusal:
            code = _CODES[_CODE_OF_STATUS.get(refusal.status, 13)]
            context.abort(code, refusal.message)

    return call
