"""One class for each content type: its bodies become arrays, and arrays its bodies.

The handler reads requests and writes answers, the client writes requests and reads answers. A
content type is a class here and its place in `CODECS`, from which come what the Accept header may
name, the client's `format=`, and what both say that they take.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from google.protobuf.message import DecodeError

from servable_tensors import UNNAMED, UNNAMED_OUTPUT, TensorError, text_bodies, untyped_json, wire
from servable_tensors.json_tensors import arrays_of, parse
from servable_tensors.npy import NpyRelay, from_npy, from_npz, npy_in, to_npy, to_npz
from servable_tensors.predict_messages import (
    MOST_DIMENSIONS,
    arrays_in,
    model_spec_bytes,
    predict_message,
)
from servable_tensors.protobuf_walk import check_predict_request, described_inputs
from servable_tensors.signature import Signature
from servable_tensors.tensors import (
    Array,
    Arrays,
    UnknownTypeError,
    array_dtype,
    fill,
    to_array,
    value_field,
)
from servable_tensors.text_answers import as_columns, as_csv, as_lines, as_rows

JSON = "application/json"
JSON_LINES = "application/jsonlines"
CSV = "text/csv"
NPY = "application/x-npy"
NPZ = "application/x-npz"
PROTOBUF = "application/x-protobuf"

# A text is parsed again to say what is wrong with it: a few times its size, 0.2 s a MB.
MOST_EXPLAINED_BYTES = 1 << 19
# What a PredictRequest may grow by, where it is made into arrays and then into text.
_MOST_REPEATED_BYTES = 1 << 20
# A model server writes every value. TensorFlow lets one stand for all that follow: a few bytes
# would fill the memory. So a tensor that claims more than this many times its message is refused.
_MOST_EXPANSION, _SMALL_BYTES = 4, 1 << 10


ModelSpec = Callable[[], Any]
"""Makes the wire.ModelSpec of an answer, for a form that holds one."""


class RequestedModel(Protocol):
    """Which model, version and signature a client's request is for; None is the endpoint's default."""

    @property
    def model(self) -> str | None: ...
    @property
    def version(self) -> int | None: ...
    @property
    def signature(self) -> str | None: ...


class Codec(ABC):
    """A content type. Bodies that can be handed on to a model server as they are, say so."""

    content_type: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()
    """Other content types of a request that is read in the same way."""
    form: ClassVar[str | None] = None
    """The client's name for it; None where the client does not send it."""
    own_answer: ClassVar[str | None] = None
    """Content type of the answer where the caller wants no other; None: the request's."""
    is_text: ClassVar[bool] = False
    """Whether `to_json` makes the JSON of a model server's REST interface of a body."""
    is_message: ClassVar[bool] = False
    """Whether a body is the message itself that a model server takes and gives over gRPC."""
    relay: ClassVar[type[NpyRelay] | None] = None
    """Makes messages of bodies whose form was seen, without reading them; one for each signature."""

    @abstractmethod
    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        """Arrays that fit the signature, and whether the answer is due in rows. Raises `TensorError`."""

    @abstractmethod
    def write_answer(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        """The answer's body. Raises `TensorError`."""

    def to_json(self, body: bytes) -> bytes:
        """The body as JSON, for text formats only."""
        raise TypeError(f"{self.content_type} is not a text format")

    def hand_on(self, reply: bytes) -> bytes | None:
        """The answer's body by a PredictResponse's bytes; None where arrays must come between."""
        return None

    def explain(self, body: bytes, signature: Signature) -> None:
        """Raises a `TensorError` that says what of the body does not fit the signature, where it does not.

        For a body that a model server has refused; of a text only one of up to 512 KiB.
        """
        if len(body) <= MOST_EXPLAINED_BYTES:
            self.read_request(body, signature)

    def write_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        """The body of a client's request. Raises `TensorError` for what the form cannot hold."""
        raise TensorError(f"{self.content_type} is not sent by the client")

    def read_answer(self, body: bytes) -> dict[str, Array]:
        """The outputs of an answer by name. Raises `TensorError`, ValueError."""
        raise TensorError(f"{self.content_type} is not read by the client")

    def read_inputs(self, body: bytes) -> dict[str, Array]:
        """The inputs of a request by name, where no signature is known. Raises as `read_answer`."""
        return self.read_answer(body)


class _Text(Codec):
    """Text forms that the container accepts without code: one value, lists, or lines."""

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
            arrays = arrays_of(request, signature)
        except UnknownTypeError as bad:  # an input of a type that nobody can send
            raise TensorError(f"an input of the signature cannot be sent: {bad}") from None
        signature.check(arrays)
        return arrays, "instances" in request


class JsonCodec(_Text):
    """TensorFlow Serving's own."""

    content_type, form = JSON, "json"

    def write_answer(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        return as_rows(outputs) if rows else as_columns(outputs)

    def write_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        return untyped_json.written(arrays, choice.signature)

    def read_answer(self, body: bytes) -> dict[str, Array]:
        return untyped_json.outputs(body)

    def read_inputs(self, body: bytes) -> dict[str, Array]:
        return untyped_json.inputs(body)


class JsonLinesCodec(_Text):
    """One JSON text for each row."""

    content_type, also = JSON_LINES, ("application/jsons",)

    def write_answer(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        return as_lines(outputs)


class JsonRecordsCodec(JsonLinesCodec):
    """JSON lines whose answer is due in lines, as a transform job's are: one for each, however many."""

    def to_json(self, body: bytes) -> bytes:
        return text_bodies.from_records(body)


class CsvCodec(_Text):
    """One line for each row."""

    content_type = CSV

    def to_json(self, body: bytes) -> bytes:
        return text_bodies.from_csv(body)

    def write_answer(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        return as_csv(outputs)


class NpyCodec(Codec):
    """NumPy's .npy: one tensor, unnamed; strings without zeros at their end."""

    content_type, form = NPY, "npy"
    relay = NpyRelay

    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        name = signature.only_input()
        arrays = {name: from_npy(body, name)}
        signature.check(arrays)
        return arrays, False

    def write_answer(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        if len(outputs) != 1:
            raise TensorError(
                f"a .npy holds one tensor and the model gives {', '.join(outputs)}; accept {NPZ}"
            )
        return to_npy(next(iter(outputs.values())))

    def hand_on(self, reply: bytes) -> bytes | None:
        return npy_in(reply)

    def write_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        if len(arrays) != 1:
            raise TensorError(
                f'a .npy holds one array and {", ".join(arrays)} are given; leave format out, or "npz"'
            )
        ((name, array),) = arrays.items()
        return to_npy(array, name or "the input")

    def read_answer(self, body: bytes) -> dict[str, Array]:
        return {UNNAMED_OUTPUT: from_npy(body, UNNAMED_OUTPUT, most_strings=None)}

    def read_inputs(self, body: bytes) -> dict[str, Array]:
        return {UNNAMED: from_npy(body, most_strings=None)}


class NpzCodec(Codec):
    """NumPy's .npz: tensors by name; strings without zeros at their end."""

    content_type, form = NPZ, "npz"

    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        arrays = from_npz(body, signature.check_names)
        signature.check(arrays)
        return arrays, False

    def write_answer(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        return to_npz(outputs)

    def write_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        if UNNAMED in arrays:
            raise TensorError('a .npz holds arrays by name; name the input, or use format="npy"')
        return to_npz(arrays)

    def read_answer(self, body: bytes) -> dict[str, Array]:
        return from_npz(body, most_strings=None)


class ProtobufCodec(Codec):
    """TensorFlow Serving's PredictRequest and PredictResponse: tensors by name, any bytes as strings."""

    content_type, form = PROTOBUF, "protobuf"
    is_message = True

    def read_request(self, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
        check_predict_request(body)
        inputs, repeated_bytes = described_inputs(body)
        signature.check(inputs)
        if repeated_bytes > _MOST_REPEATED_BYTES:
            raise TensorError(
                f"single values stand for {repeated_bytes} bytes of tensors; at most "
                f'{_MOST_REPEATED_BYTES} are allowed with transport = "rest": send every value'
            )
        try:
            arrays = self.read_inputs(body)
        except UnknownTypeError as bad:
            raise TensorError(f"the body holds a tensor that cannot be read: {bad}") from None
        signature.check(arrays)
        return arrays, False

    def write_answer(self, outputs: Arrays, *, rows: bool, model_spec: ModelSpec) -> bytes:
        response = wire.PredictResponse(model_spec=model_spec())
        for name, array in outputs.items():
            fill(response.outputs[name], array)
        return bytes(response.SerializeToString())

    def hand_on(self, reply: bytes) -> bytes | None:
        return reply

    def explain(self, body: bytes, signature: Signature) -> None:
        """Checks names, types and shapes without reading values."""
        signature.check(described_inputs(body)[0])

    def write_request(self, arrays: Arrays, choice: RequestedModel) -> bytes:
        if UNNAMED in arrays:
            raise TensorError('a PredictRequest holds inputs by name; name it, or use format="npy"')
        # Nothing where nothing is chosen: the handler knows the default model's name.
        spec = model_spec_bytes(choice.model or "", choice.version, choice.signature)
        try:
            return predict_message(spec, arrays)
        except UnknownTypeError as bad:
            raise TensorError(str(bad)) from None

    def read_answer(self, body: bytes) -> dict[str, Array]:
        try:
            return arrays_in(body, _bounded_array)
        except DecodeError as error:
            raise TensorError(f"it is no PredictResponse ({error})") from None
        except OverflowError as error:  # a half_val below nothing
            raise TensorError(str(error)) from None

    def read_inputs(self, body: bytes) -> dict[str, Array]:
        try:
            request = wire.PredictRequest.FromString(body)
        except DecodeError:
            raise TensorError("the body is no PredictRequest") from None
        return {name: to_array(tensor) for name, tensor in sorted(request.inputs.items())}


def _bounded_array(message: Any) -> Array:
    """A wire.TensorProto's array. Raises `UnknownTypeError`, for one that claims to be huge too."""
    dimensions = message.tensor_shape.dim
    if len(dimensions) > MOST_DIMENSIONS:
        raise UnknownTypeError(
            f"a tensor of {len(dimensions)} dimensions; at most {MOST_DIMENSIONS} are read"
        )
    count = math.prod(dimension.size for dimension in dimensions)
    claimed, sent = count * array_dtype(message.dtype).itemsize, message.ByteSize()
    may_repeat = claimed > max(_SMALL_BYTES, _MOST_EXPANSION * sent) and not message.tensor_content
    if may_repeat and len(getattr(message, value_field(message.dtype))) < count:
        raise UnknownTypeError(f"a tensor claims {claimed} bytes in a message of {sent}")
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
