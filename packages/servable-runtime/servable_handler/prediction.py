"""Predictions of one model, and the plan for requests with the same headers.

A plan holds codecs and target, computed for the first of these requests. The Accept header is
evaluated by RFC 9110, sections 12.4.2 and 12.5.1.
"""

import functools
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from servable_handler.request import (
    DEFAULT_SIGNATURE,
    DEFAULT_TIMEOUT_SECONDS,
    Call,
    RequestError,
    build_call,
)
from servable_handler.settings import Settings
from servable_handler.transport.model_servers import ModelServers
from servable_tensors import TensorError, wire
from servable_tensors.codecs import CODECS, CSV, JSON, JSON_LINES, JSON_RECORDS, Codec
from servable_tensors.json_tensors import JsonRequest, JsonValueError, parse_response, to_array
from servable_tensors.npy import NpyRelay
from servable_tensors.predict_messages import (
    read_arrays,
    serialize_model_spec,
    serialize_predict_request,
)
from servable_tensors.protobuf_walk import DescribedRequest, check_predict_request
from servable_tensors.records import parse_media_type
from servable_tensors.signature import Signature, read_signatures
from servable_tensors.tensors import Array, Arrays, UnknownTypeError
from servable_tensors.text_answers import as_columns
from servable_tensors.text_bodies import add_signature

_MOST_RELAYS = 64
_MOST_ELEMENTS_AS_TEXT = 1 << 20


class ServedModels:
    """The models behind these servers. Signatures are requested once, because they never change."""

    def __init__(self, servers: ModelServers) -> None:
        self.servers = servers
        self._signatures: dict[tuple[str, int | None], dict[str, Signature]] = {}
        self._relays: dict[tuple[str, str, int | None, str | None], NpyRelay] = {}

    def find_signature(self, call: Call) -> Signature:
        """Return the signature that the call names. Raises `RequestError`."""
        signatures = self._load_signatures(call)
        name = call.signature or DEFAULT_SIGNATURE
        if name not in signatures:
            listed = ", ".join(other for other in signatures if not other.startswith("__"))
            raise RequestError(400, f"signature {name!r:.60} is not one of the model's: {listed}")
        return signatures[name]

    def check_ranks(self, text: bytes, call: Call) -> None:
        """Check the ranks in JSON before it is relayed. Raises `TensorError` for a wrong rank.

        A wrong rank can crash TensorFlow's process (docs/decisions/0050).
        """
        if signatures := self._find_ranked_signatures(call):
            request = JsonRequest(text)
            signature = signatures.get(request.signature or DEFAULT_SIGNATURE)
            if signature is not None:
                signature.check_ranks(request.find_ranks(signature.ranks))

    def check_message_ranks(self, described: DescribedRequest, call: Call) -> None:
        """Check the ranks of a PredictRequest, as `check_ranks` does for JSON."""
        message_call = _apply_message_names(described, call)
        ranked, name = self._find_ranked_signatures(message_call), message_call.signature
        signature = ranked.get(name or DEFAULT_SIGNATURE)
        if signature is not None:
            signature.check_ranks(described.ranks)

    def _find_ranked_signatures(self, call: Call) -> dict[str, Signature]:
        """Return the model's signatures whose ranks are checked; none if no server responds."""
        try:
            signatures = self._load_signatures(call)
        except RequestError:
            return {}  # the prediction itself gets the error
        return {name: signature for name, signature in signatures.items() if signature.ranks}

    def _load_signatures(self, call: Call) -> dict[str, Signature]:
        key = call.model, call.version
        if key not in self._signatures:
            request = wire.GetModelMetadataRequest(
                model_spec=call.build_model_spec(), metadata_field=["signature_def"]
            )
            request.model_spec.ClearField("signature_name")
            reply = self.servers.call_grpc("GetModelMetadata", request.SerializeToString(), call)
            self._signatures[key] = read_signatures(wire.GetModelMetadataResponse.FromString(reply))
        return self._signatures[key]

    def provide_relay(self, codec: Codec, call: Call) -> NpyRelay | None:
        """Return the cached layouts of the codec's bodies for the call's signature, if it has a relay."""
        if codec.relay is None:
            return None
        if len(self._relays) >= _MOST_RELAYS:
            self._relays.clear()
        key = codec.content_type, call.model, call.version, call.signature
        return self._relays.setdefault(key, codec.relay())

    def predict_over_rest(
        self, arrays: Arrays, signature: Signature, call: Call
    ) -> dict[str, Array]:
        """Send the arrays over REST and return the outputs. Raises `RequestError`."""
        body = as_columns(arrays, key="inputs")
        named = add_signature(body, signature.name)
        status, answer = self.servers.call_rest(call.path, named, call)
        if status != 200:
            raise RequestError(status, f"the model server refuses: {extract_message(answer)}")
        try:
            columns = parse_response(answer)
        except TensorError as error:
            raise RequestError(502, str(error)) from None
        if len(signature.outputs) == 1:
            columns = dict.fromkeys(signature.outputs, columns)
        try:
            return {name: to_array(columns[name], spec) for name, spec in signature.outputs.items()}
        except (JsonValueError, KeyError, TypeError) as error:
            problem = f"the model server's response cannot be read: {error}"
            raise RequestError(502, problem) from None


def apply_body_names(body: bytes, codec: Codec, call: Call) -> Call:
    """Return the call with the model, version and signature that its body names.

    Custom attributes override a PredictRequest. JSON's signature_name overrides them, as where
    the body is relayed. Raises `TensorError` for a body that cannot be read.
    """
    if codec.is_message:
        return _apply_message_names(check_predict_request(body), call)
    if codec.is_text and b"signature" in body:
        return call._replace(signature=JsonRequest(codec.to_json(body)).signature or call.signature)
    return call


def _apply_message_names(described: DescribedRequest, call: Call) -> Call:
    if not described.spec:
        return call
    try:
        spec = wire.ModelSpec.FromString(described.spec)
    except DecodeError:
        return call  # a name that isn't UTF-8: the model server rejects it
    if described.model_named and not call.model_named:
        call = call._replace(model=spec.name)
    if call.version is None and spec.HasField("version"):
        call = call._replace(version=spec.version.value)
    return call._replace(signature=call.signature or spec.signature_name or None)


def check_sendable_as_text(arrays: Arrays, body_bytes: int) -> None:
    """Raise `RequestError` for over a million elements that outnumber the body's bytes."""
    count = sum(array.size for array in arrays.values())
    if count > max(body_bytes, _MOST_ELEMENTS_AS_TEXT):
        raise RequestError(
            413,
            f'the body unpacks to {count} elements; with transport = "rest", the maximum is '
            f"{_MOST_ELEMENTS_AS_TEXT}, or one for each byte of the body; send less in one request",
        )


def build_request(arrays: Arrays, signature: Signature, call: Call) -> bytes:
    """Return a serialized PredictRequest. Raises `RequestError`."""
    try:
        spec = serialize_model_spec(call.model, call.version, signature.name)
        return serialize_predict_request(spec, arrays, signature)
    except UnknownTypeError as bad:
        raise RequestError(400, str(bad)) from None


def read_outputs(reply: bytes) -> dict[str, Array]:
    """Return the outputs in a serialized PredictResponse, by name, sorted. Raises `RequestError`."""
    try:
        return read_arrays(reply)
    except (DecodeError, UnknownTypeError) as error:
        raise RequestError(502, f"the model server's response cannot be read: {error}") from None


def extract_message(answer: bytes) -> str:
    """Return the message in a model server's {"error": …}, or the start of any other body."""
    return parse_error(answer) or answer[:500].decode(errors="replace")


def parse_error(answer: bytes) -> str | None:
    """Return the model server's error message, or None if the body is not one of its errors."""
    try:
        parsed = json.loads(answer)
    except ValueError:
        return None
    error = parsed.get("error") if isinstance(parsed, dict) else None
    return error if isinstance(error, str) else None


_MOST_PLANS = 256
_MOST_LETTERS = 2_000  # plans for longer headers are not kept
PlanKey = tuple[Any, ...]
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for requests with the same headers.

    `call` lacks its deadline. `codec` reads the body; it is None if a hook reads it. `answer`
    writes the response. `relay` is for bodies that go over gRPC without being read.
    """

    call: Call
    timeout_seconds: float
    content_type: str
    codec: Codec | None
    answer: Codec
    model: ServedModels
    relay: NpyRelay | None


class Plans:
    """The plans of this process. No connection is opened before the first plan is needed."""

    def __init__(self, settings: Settings, variables: Mapping[str, str], *, hooked: bool) -> None:
        """Read the ports from `variables`. `hooked`: preprocess takes any body and returns arrays."""
        self._settings, self._hooked = settings, hooked
        self._grpc_ports = _parse_ports(variables.get("TFS_GRPC_PORTS"))
        self._rest_ports = _parse_ports(variables.get("TFS_REST_PORTS"))
        self._models: dict[tuple[int, ...], ServedModels] = {}
        self._plans: dict[PlanKey, Plan] = {}
        self._process = 0

    def provide_plan(self, context: Any, attributes: str | None) -> Plan:
        """Return the plan for the context's headers, built on first use. Raises `RequestError`.

        `attributes` are its custom attributes without what differs from request to request.
        """
        if self._process != os.getpid():
            # Created after the fork: connections belong to the process that opened them.
            self._models, self._plans, self._process = {}, {}, os.getpid()
        key = (
            context.model_name,
            context.model_version,
            context.method,
            context.rest_uri,
            context.grpc_port,
            attributes,
            context.request_content_type,
            context.accept_header,
            getattr(context, "timeout", None),
        )
        plan = self._plans.get(key)
        if plan is None:
            plan = self._build_plan(context, attributes)
            if sum(len(part) for part in key if isinstance(part, str)) <= _MOST_LETTERS:
                if len(self._plans) >= _MOST_PLANS:
                    self._plans.clear()
                self._plans[key] = plan
        return plan

    def _build_plan(self, context: Any, attributes: str | None) -> Plan:
        call = build_call(context, attributes)
        content_type = parse_media_type(context.request_content_type)
        codec = None if self._hooked else CODECS.get(content_type)
        if codec is None and not self._hooked:
            problem = f"Content-Type {content_type!r:.80} is not supported"
            raise RequestError(415, f"{problem}; send {', '.join(CODECS)}")
        own = (codec.own_answer or codec.content_type) if codec else JSON
        answer = CODECS[choose_content_type(context.accept_header, own)]
        if codec is CODECS[JSON_LINES] and answer.content_type in (JSON_LINES, CSV):
            codec = JSON_RECORDS
        model = self._provide_model(context)
        timeout = float(getattr(context, "timeout", None) or DEFAULT_TIMEOUT_SECONDS)
        relay = None
        if codec is not None and call.method == "predict" and self._settings.transport != "rest":
            relay = model.provide_relay(codec, call)
        seconds = min(timeout, self._settings.timeout_seconds or timeout)
        return Plan(call, seconds, content_type, codec, answer, model, relay)

    def _provide_model(self, context: Any) -> ServedModels:
        grpc_port = int(context.grpc_port)
        rest_port = int(context.rest_uri.split("/", 3)[2].rpartition(":")[2])
        # In multi-model mode a model has servers of its own, which only the context knows.
        listed = grpc_port in self._grpc_ports and rest_port in self._rest_ports
        ports = (self._grpc_ports, self._rest_ports) if listed else ((grpc_port,), (rest_port,))
        if ports[0] not in self._models:
            self._models[ports[0]] = ServedModels(ModelServers(*ports))
        return self._models[ports[0]]


def _parse_ports(text: str | None) -> tuple[int, ...]:
    return tuple(int(port) for port in (text or "").split(",") if port.strip().isdecimal())


@functools.lru_cache(maxsize=256)
def choose_content_type(accept: str, own: str) -> str:
    """Return the content type of the response, one of `CODECS`.

    `own` is the default, which depends on the request's content type. Each type has the q of the
    most specific range that matches it. The highest q wins; with equal q the more specific one,
    then the first in the header, then `own`. A header that allows no supported type is ignored,
    as the container does without code.
    """
    ranges = [_parse_range(item) for item in accept.lower().split(",")]
    ranks: dict[str, tuple[float, int, int, bool]] = {}
    # Each codec once, because CODECS has it under every content type that it reads.
    for form in dict.fromkeys(codec.content_type for codec in CODECS.values()):
        by_name = {"*/*": 1, f"{form.partition('/')[0]}/*": 2, form: 3}
        matches = [
            (by_name[name], -position, weight)
            for position, (name, weight) in enumerate(ranges)
            if name in by_name
        ]
        closeness, position, weight = max(matches, default=(0, 0, 0.0))
        if weight > 0:
            ranks[form] = weight, closeness, position, form == own
    return max(ranks, key=ranks.__getitem__, default=own)


def _parse_range(item: str) -> tuple[str, float]:
    name, *parameters = (part.strip() for part in item.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            # A q that is not a number by the grammar: the range is ignored.
            return (name, float(value.strip())) if _WEIGHT.fullmatch(value.strip()) else ("", 0.0)
    return name, 1.0
