"""The codecs: one class for each content type converts between bodies and arrays.

The handler reads requests and writes responses, the client writes requests and reads responses. A
content type is a class here and its entry in `CODECS`. From there come the types that the Accept
header may name, the client's `format=`, and what both list as supported.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from google.protobuf.message import DecodeError

from servable_tensors import UNNAMED, UNNAMED_OUTPUT, TensorError, text_bodies, untyped_json, wire
from servable_tensors.json_tensors import build_arrays, parse
from servable_tensors.npy import NpyRelay, from_npy, from_npz, reply_to_npy, to_npy, to_npz
from servable_tensors.predict_messages import (
    MOST_DIMENSIONS,
    read_arrays,
    serialize_model_spec,
    serialize_predict_request,
)
from servable_tensors.protobuf_walk import check_predict_request, describe_inputs
from servable_tensors.signature import Signature
from servable_tensors.tensors import (
    Array,
    Arrays,
    UnknownTypeError,
    fill_proto,
    find_array_dtype,
    find_value_field,
    to_array,
)
from servable_tensors.text_answers import as_columns, as_csv, as_lines, as_rows

JSON = "application/json"
JSON_LINES, *_ALSO_JSON_LINES = text_bodies.TYPES_OF_JSON_LINES
CSV = "text/csv"
NPY = "application/x-npy"
NPZ = "application/x-npz"
PROTOBUF = "application/x-protobuf"

# A text is parsed again to say what is wrong with it: a few times its size, 0.2 s a MB.
MOST_EXPLAINED_BYTES = 1 << 19
# What a PredictRequest may grow by, where it is made into arrays and then into text.
_MOST_REPEATED_BYTES = 1 << 20
# A model server writes every value. TensorFlow accepts one for all that follow: a few bytes would
# fill the memory. So a tensor that claims more than this many times its message is rejected.
_MOST_EXPANSION, _SMALL_BYTES = 4, 1 << 10


ModelSpec = Callable[[], Any]
"""Makes the wire.ModelSpec of a response, for formats that contain one."""


class RequestedModel(Protocol):
    """The model, version and signature that a client requests; None is the endpoint's default."""

    @property
    def model(self) -> str | None: ...
    @property
    def version(self) -> int | None: ...
    @property
    def signature(self) -> str | None: ...


class Codec(ABC):
    """The base class of codecs. Its flags show which bodies can be relayed to a model server unchanged."""

    content_type: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()
    """Other content types of a request that is read in the same way."""
    form: ClassVar[str | None] = None
    """The client's name for it; None where the client does not send it."""
    own_answer: ClassVar[str | None] = None
    """Content type of the response unless the caller accepts only others; None: the request's."""
    is_text: ClassVar[bool] = False
    """Whether `to_json` makes the JSON of a model server's REST interface of a body."""
    is_message: ClassVar[bool] = False
    """Whether a body is the message itself that a model server takes and gives over gRPC."""
    relay: ClassVar[type[NpyRelay] | None] = None
    """Converts bodies of a known layout to messages without reading them; one for each signature."""

    @abstractmethod
    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        """Return arrays that fit the signature, and whether the response must have rows.

        Raises `TensorError`.
        """

    @abstractmethod
    def encode_response(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        """Return the response's body. Raises `TensorError`."""

    def to_json(self, body: bytes) -> bytes:
        """Return the body as JSON, for text formats only."""
        raise TypeError(f"{self.content_type} isn't a text format")

    def relay_reply(self, reply: bytes) -> bytes | None:
        """Return the response's body from a PredictResponse's bytes, or None if arrays are needed."""
        return None

    def check_rejected_body(self, body: bytes, signature: Signature) -> None:
        """Raise a `TensorError` that names what in a body, which a model server rejected, does not fit.

        It raises nothing if all fits, and does not read text above 512 KiB.
        """
        if len(body) <= MOST_EXPLAINED_BYTES:
            self.read_request(body, signature)

    def encode_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        """Return the body of a client's request. Raises `TensorError` for what the format cannot hold."""
        raise TensorError(f"the client can't send {self.content_type}; use a different format")

    def read_response(self, body: bytes) -> dict[str, Array]:
        """Return the outputs of a response by name. Raises `TensorError`, ValueError."""
        raise TensorError(f"the client can't read {self.content_type}; use a different format")

    def read_inputs(self, body: bytes) -> dict[str, Array]:
        """Return the inputs of a request by name, without a signature. Raises as `read_response`."""
        return self.read_response(body)


class _Text(Codec):
    """The base class of text codecs, whose formats the container accepts without code."""

    own_answer, is_text = JSON, True

    def to_json(self, body: bytes) -> bytes:
        return text_bodies.from_json(body)

    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        converted = self.to_json(body)
        try:
            request = parse(converted)
        except TensorError as error:
            if converted == body or "column" not in str(error):
                raise
            raise TensorError(f"{error}, counted in what the model server is sent") from None
        try:
            arrays = build_arrays(request, signature)
        except UnknownTypeError as bad:  # an input of a type that can't be sent
            raise TensorError(f"cannot send an input of the signature: {bad}") from None
        signature.check(arrays)
        return arrays, "instances" in request


class JsonCodec(_Text):
    """The codec for TensorFlow Serving's own JSON."""

    content_type, form = JSON, "json"

    def encode_response(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        return as_rows(outputs) if rows else as_columns(outputs)

    def encode_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        return untyped_json.encode_request(arrays, choice.signature)

    def read_response(self, body: bytes) -> dict[str, Array]:
        return untyped_json.read_outputs(body)

    def read_inputs(self, body: bytes) -> dict[str, Array]:
        return untyped_json.read_inputs(body)


class JsonLinesCodec(_Text):
    """The codec for JSON lines: one JSON text for each row."""

    content_type, also = JSON_LINES, tuple(_ALSO_JSON_LINES)

    def encode_response(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        return as_lines(outputs)


class JsonRecordsCodec(JsonLinesCodec):
    """The codec for JSON lines, as of a transform job, with one response line for each."""

    def to_json(self, body: bytes) -> bytes:
        return text_bodies.from_records(body)


class CsvCodec(_Text):
    """The codec for CSV: one line for each row."""

    content_type = CSV

    def to_json(self, body: bytes) -> bytes:
        return text_bodies.from_csv(body)

    def encode_response(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        return as_csv(outputs)


class NpyCodec(Codec):
    """The codec for NumPy's .npy: one unnamed tensor; strings lose zeros at their end."""

    content_type, form = NPY, "npy"
    relay = NpyRelay

    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        name = signature.find_only_input()
        arrays = {name: from_npy(body, name)}
        signature.check(arrays)
        return arrays, False

    def encode_response(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        if len(outputs) != 1:
            problem = f"a .npy holds one tensor, but the model returns {', '.join(outputs)}"
            raise TensorError(f"{problem}; accept {NPZ}")
        return to_npy(next(iter(outputs.values())))

    def relay_reply(self, reply: bytes) -> bytes | None:
        return reply_to_npy(reply)

    def encode_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        if len(arrays) != 1:
            problem = f"a .npy holds one array, not {', '.join(arrays)}"
            raise TensorError(f'{problem}; omit format, or set it to "npz"')
        ((name, array),) = arrays.items()
        return to_npy(array, name or "the input")

    def read_response(self, body: bytes) -> dict[str, Array]:
        return {UNNAMED_OUTPUT: from_npy(body, UNNAMED_OUTPUT, most_strings=None)}

    def read_inputs(self, body: bytes) -> dict[str, Array]:
        return {UNNAMED: from_npy(body, most_strings=None)}


class NpzCodec(Codec):
    """The codec for NumPy's .npz: tensors by name; strings lose zeros at their end."""

    content_type, form = NPZ, "npz"

    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        arrays = from_npz(body, signature.check_names)
        signature.check(arrays)
        return arrays, False

    def encode_response(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        return to_npz(outputs)

    def encode_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        if UNNAMED in arrays:
            problem = 'a .npz needs a name for each array; name the input, or use format="npy"'
            raise TensorError(problem)
        return to_npz(arrays)

    def read_response(self, body: bytes) -> dict[str, Array]:
        return from_npz(body, most_strings=None)


class ProtobufCodec(Codec):
    """The codec for PredictRequest and PredictResponse: tensors by name, any bytes as strings."""

    content_type, form = PROTOBUF, "protobuf"
    is_message = True

    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        check_predict_request(body)
        inputs, repeated_bytes = describe_inputs(body)
        signature.check(inputs)
        if repeated_bytes > _MOST_REPEATED_BYTES:
            raise TensorError(
                f"repeating single values gives {repeated_bytes} bytes of tensors; the maximum is "
                f'{_MOST_REPEATED_BYTES} with transport = "rest"; send every value'
            )
        try:
            arrays = self.read_inputs(body)
        except UnknownTypeError as bad:
            raise TensorError(f"the body has an unreadable tensor: {bad}") from None
        signature.check(arrays)
        return arrays, False

    def encode_response(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        response = wire.PredictResponse(model_spec=model_spec())
        for name, array in outputs.items():
            fill_proto(response.outputs[name], array)
        return bytes(response.SerializeToString())

    def relay_reply(self, reply: bytes) -> bytes | None:
        return reply

    def check_rejected_body(self, body: bytes, signature: Signature) -> None:
        """Check names, types and shapes without reading values."""
        signature.check(describe_inputs(body)[0])

    def encode_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        if UNNAMED in arrays:
            problem = 'a PredictRequest needs input names; name the input, or use format="npy"'
            raise TensorError(problem)
        # Nothing where nothing is chosen: the handler knows the default model's name.
        spec = serialize_model_spec(choice.model or "", choice.version, choice.signature)
        try:
            return serialize_predict_request(spec, arrays)
        except UnknownTypeError as bad:
            raise TensorError(str(bad)) from None

    def read_response(self, body: bytes) -> dict[str, Array]:
        try:
            return read_arrays(body, _read_bounded_array)
        except DecodeError as error:
            raise TensorError(f"it isn't a PredictResponse ({error})") from None
        except OverflowError as error:  # a half_val below nothing
            raise TensorError(str(error)) from None

    def read_inputs(self, body: bytes) -> dict[str, Array]:
        try:
            request = wire.PredictRequest.FromString(body)
        except DecodeError:
            raise TensorError("the body is no PredictRequest") from None
        return {name: to_array(tensor) for name, tensor in sorted(request.inputs.items())}


def _read_bounded_array(message: Any) -> Array:
    """Return a tensor's array. Raises `UnknownTypeError`, also if it claims far more than was sent."""
    dimensions = message.tensor_shape.dim
    if len(dimensions) > MOST_DIMENSIONS:
        problem = f"a tensor has {len(dimensions)} dimensions; the maximum is {MOST_DIMENSIONS}"
        raise UnknownTypeError(problem)
    count = math.prod(dimension.size for dimension in dimensions)
    claimed, sent = count * find_array_dtype(message.dtype).itemsize, message.ByteSize()
    may_repeat = claimed > max(_SMALL_BYTES, _MOST_EXPANSION * sent) and not message.tensor_content
    if may_repeat and len(getattr(message, find_value_field(message.dtype))) < count:
        raise UnknownTypeError(f"a tensor states {claimed} bytes, but its message has {sent}")
    return to_array(message)


CODECS: dict[str, Codec] = {
    content_type: codec
    for codec in (
        JsonCodec(), JsonLinesCodec(), CsvCodec(), NpyCodec(), NpzCodec(), ProtobufCodec(),
    )
    for content_type in (codec.content_type, *codec.also)
}  # fmt: skip
"""Codecs by content type of a request."""
JSON_RECORDS = JsonRecordsCodec()
