"""Sends arrays to the model and returns its outputs, over gRPC or REST, by the signature."""

import json

from google.protobuf.message import DecodeError

from servable_handler.call import DEFAULT_SIGNATURE, Aim, Call
from servable_handler.refusal import RequestError
from servable_handler.transport.model_servers import ModelServers
from servable_tensors import TensorError, wire
from servable_tensors.codecs import Codec
from servable_tensors.json_ranks import JsonRequest
from servable_tensors.json_tensors import JsonValueError, parse_answer, to_array
from servable_tensors.npy import NpyRelay
from servable_tensors.predict_messages import arrays_in, model_spec_bytes, predict_message
from servable_tensors.protobuf_walk import DescribedRequest, check_predict_request
from servable_tensors.signature import Signature, signatures
from servable_tensors.tensors import Array, Arrays, UnknownTypeError
from servable_tensors.text_answers import as_columns
from servable_tensors.text_bodies import with_signature

_MOST_RELAYS = 64
_MOST_ELEMENTS_AS_TEXT = 1 << 20


class ServedModels:
    """The models behind these servers. Signatures are requested once, because they never change."""

    def __init__(self, servers: ModelServers) -> None:
        self.servers = servers
        self._signatures: dict[tuple[str, int | None], dict[str, Signature]] = {}
        self._ranked: dict[tuple[str, int | None], dict[str, Signature]] = {}
        self._relays: dict[tuple[str, str, int | None, str | None], NpyRelay] = {}

    def signature(self, call: Call) -> Signature:
        """The signature that the call names. Raises `RequestError`."""
        signatures = self._known(call)
        name = call.signature or DEFAULT_SIGNATURE
        if name not in signatures:
            listed = ", ".join(other for other in signatures if not other.startswith("__"))
            raise RequestError(400, f"signature {name!r:.60} is not one of the model's: {listed}")
        return signatures[name]

    def check_ranks(self, text: bytes, call: Call) -> None:
        """Checks the ranks in JSON before it is relayed. Raises `TensorError` for a wrong rank.

        A wrong rank can crash TensorFlow's process (docs/decisions/0050).
        """
        if signatures := self._with_ranks(call):
            request = JsonRequest(text)
            signature = signatures.get(request.signature or DEFAULT_SIGNATURE)
            if signature is not None:
                signature.check_ranks(request.ranks(signature.ranks))

    def check_message_ranks(self, described: DescribedRequest, call: Call) -> None:
        """Checks the ranks of a PredictRequest like `check_ranks`."""
        message_call = _of_message(described, call)
        signature = self._with_ranks(message_call).get(message_call.signature or DEFAULT_SIGNATURE)
        if signature is not None:
            signature.check_ranks(described.ranks)

    def _with_ranks(self, call: Call) -> dict[str, Signature]:
        """The model's signatures whose ranks are checked; empty if no server answers."""
        key = call.model, call.version
        if key not in self._ranked:
            try:
                signatures = self._known(call)
            except RequestError:
                return {}  # the prediction itself gets the error
            self._ranked[key] = {name: spec for name, spec in signatures.items() if spec.ranks}
        return self._ranked[key]

    def _known(self, call: Call) -> dict[str, Signature]:
        key = call.model, call.version
        if key not in self._signatures:
            request = wire.GetModelMetadataRequest(
                model_spec=call.model_spec(), metadata_field=["signature_def"]
            )
            request.model_spec.ClearField("signature_name")
            reply = self.servers.grpc("GetModelMetadata", request.SerializeToString(), call)
            self._signatures[key] = signatures(wire.GetModelMetadataResponse.FromString(reply))
        return self._signatures[key]

    def relay(self, codec: Codec, aim: Aim) -> NpyRelay | None:
        """The cached layouts of such bodies for this model, version and signature."""
        if codec.relay is None:
            return None
        if len(self._relays) >= _MOST_RELAYS:
            self._relays.clear()
        key = codec.content_type, aim.model, aim.version, aim.signature
        return self._relays.setdefault(key, codec.relay())

    def over_rest(self, arrays: Arrays, signature: Signature, call: Call) -> dict[str, Array]:
        """Sends the arrays over REST and returns the outputs. Raises `RequestError`."""
        body = as_columns(arrays, key="inputs")
        status, answer = self.servers.rest(call.path, with_signature(body, signature.name), call)
        if status != 200:
            raise RequestError(status, f"the model server refuses: {message_of(answer)}")
        try:
            columns = parse_answer(answer)
        except TensorError as error:
            raise RequestError(502, str(error)) from None
        if len(signature.outputs) == 1:
            columns = dict.fromkeys(signature.outputs, columns)
        try:
            return {name: to_array(columns[name], spec) for name, spec in signature.outputs.items()}
        except (JsonValueError, KeyError, TypeError) as error:
            raise RequestError(502, f"the model server's answer cannot be read: {error}") from None


def with_names_of(body: bytes, codec: Codec, call: Call) -> Call:
    """The call with the model, version and signature that its body names.

    Custom attributes override a PredictRequest, and JSON's signature_name overrides them, as where
    the body is relayed. Raises `TensorError` for a body that cannot be read.
    """
    if codec.is_message:
        return _of_message(check_predict_request(body), call)
    if codec.is_text and b"signature" in body:
        return call._replace(signature=JsonRequest(codec.to_json(body)).signature or call.signature)
    return call


def _of_message(described: DescribedRequest, call: Call) -> Call:
    if not described.spec:
        return call
    try:
        spec = wire.ModelSpec.FromString(described.spec)
    except DecodeError:
        return call  # a name that is not UTF-8: the model server refuses it
    if described.model_named and not call.model_named:
        call = call._replace(model=spec.name)
    if call.version is None and spec.HasField("version"):
        call = call._replace(version=spec.version.value)
    return call._replace(signature=call.signature or spec.signature_name or None)


def check_sendable_as_text(arrays: Arrays, body_bytes: int) -> None:
    """Raises `RequestError` for more elements than the body has bytes, beyond a million."""
    count = sum(array.size for array in arrays.values())
    if count > max(body_bytes, _MOST_ELEMENTS_AS_TEXT):
        raise RequestError(
            413,
            f'the body unpacks to {count} elements; with transport = "rest" at most '
            f"{_MOST_ELEMENTS_AS_TEXT} are allowed, or one for each byte: send less in one request",
        )


def request_of(arrays: Arrays, signature: Signature, call: Call) -> bytes:
    """A serialized PredictRequest. Raises `RequestError`."""
    try:
        return predict_message(
            model_spec_bytes(call.model, call.version, signature.name), arrays, signature
        )
    except UnknownTypeError as bad:
        raise RequestError(400, str(bad)) from None


def outputs_of(reply: bytes) -> dict[str, Array]:
    """The outputs in a serialized PredictResponse, by name, sorted. Raises `RequestError`."""
    try:
        return arrays_in(reply)
    except (DecodeError, UnknownTypeError) as error:
        raise RequestError(502, f"the model server's answer cannot be read: {error}") from None


def message_of(answer: bytes) -> str:
    """The message in a model server's {"error": …}."""
    return error_of(answer) or answer[:500].decode(errors="replace")


def error_of(answer: bytes) -> str | None:
    """The model server's error message; None if the body is not one of its errors."""
    try:
        parsed = json.loads(answer)
    except ValueError:
        return None
    error = parsed.get("error") if isinstance(parsed, dict) else None
    return error if isinstance(error, str) else None
