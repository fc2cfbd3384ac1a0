"""Arrays to the model and back, over gRPC or REST, by what the signature says."""

import json

from google.protobuf.message import DecodeError

from serving import wire
from serving.call import DEFAULT_SIGNATURE, Aim, Call
from serving.json_answers import as_columns
from serving.json_tensors import BadValue, parse_answer, to_array
from serving.model_servers import ModelServers
from serving.npy_relay import NpyRelay
from serving.predict_answer import arrays_in
from serving.predict_message import predict_message
from serving.refusal import Refusal
from serving.signature import Signature, signatures
from serving.tensors import Array, Arrays, BadTensor
from serving.text_bodies import with_signature

_MOST_RELAYS = 64


class Model:
    """The models behind these servers. Signatures are asked for once: they never change."""

    def __init__(self, servers: ModelServers) -> None:
        self.servers = servers
        self._signatures: dict[tuple[str, int | None], dict[str, Signature]] = {}
        self._relays: dict[tuple[str, int | None, str | None], NpyRelay] = {}

    def signature(self, call: Call, name: str | None = None) -> Signature:
        """The signature that the call, else `name`, asks for. Raises `Refusal`."""
        key = call.model, call.version
        if key not in self._signatures:
            asked = wire.GetModelMetadataRequest(
                model_spec=call.model_spec(), metadata_field=["signature_def"]
            )
            asked.model_spec.ClearField("signature_name")
            reply = self.servers.grpc("GetModelMetadata", asked.SerializeToString(), call)
            self._signatures[key] = signatures(wire.GetModelMetadataResponse.FromString(reply))
        known = self._signatures[key]
        wanted = call.signature or name or DEFAULT_SIGNATURE
        if wanted not in known:
            listed = ", ".join(one for one in known if not one.startswith("__"))
            raise Refusal(400, f"signature {wanted!r:.60} is not one of the model's: {listed}")
        return known[wanted]

    def npy_relay(self, aim: Aim) -> NpyRelay:
        """What is known of .npy bodies for this model, version and signature, whoever sends them."""
        if len(self._relays) >= _MOST_RELAYS:
            self._relays.clear()
        return self._relays.setdefault((aim.model, aim.version, aim.signature), NpyRelay())

    def over_rest(self, arrays: Arrays, signature: Signature, call: Call) -> dict[str, Array]:
        """The outputs. Raises `Refusal`."""
        body = as_columns(arrays, key="inputs")
        status, answer = self.servers.rest(call.path, with_signature(body, signature.name), call)
        if status != 200:
            raise Refusal(status, f"the model server refuses: {said(answer)}")
        columns = parse_answer(answer)
        if len(signature.outputs) == 1:
            columns = dict.fromkeys(signature.outputs, columns)
        try:
            return {name: to_array(columns[name], spec) for name, spec in signature.outputs.items()}
        except (BadValue, KeyError, TypeError) as error:
            raise Refusal(502, f"the model server's answer cannot be read: {error}") from None


def request_of(arrays: Arrays, signature: Signature, call: Call) -> bytes:
    """A serialized PredictRequest. Raises `Refusal`."""
    try:
        return predict_message(call.asking(signature.name), arrays, signature)
    except BadTensor as bad:
        raise Refusal(400, str(bad)) from None


def outputs_of(reply: bytes) -> dict[str, Array]:
    """The outputs in a serialized PredictResponse, by name, sorted. Raises `Refusal`."""
    try:
        return arrays_in(reply)
    except (DecodeError, BadTensor) as error:
        raise Refusal(502, f"the model server's answer cannot be read: {error}") from None


def said(answer: bytes) -> str:
    """The sentence in a model server's {"error": …}."""
    return error_of(answer) or answer[:500].decode(errors="replace")


def error_of(answer: bytes) -> str | None:
    """The model server's sentence; None where the body is none of its errors."""
    try:
        found = json.loads(answer)
    except ValueError:
        return None
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, str) else None
