"""Bodies by their content type: into arrays, and arrays into answers."""

from google.protobuf.message import DecodeError

from servable_handler.accept import CSV, JSON, JSON_LINES, NPY, NPZ, PROTOBUF
from servable_handler.call import Call
from servable_handler.refusal import RequestError
from servable_tensors import wire
from servable_tensors.csv_answers import as_csv
from servable_tensors.json_answers import as_columns, as_lines, as_rows
from servable_tensors.json_tensors import arrays_of, parse
from servable_tensors.npy import from_npy, to_npy
from servable_tensors.npz import from_npz, to_npz
from servable_tensors.protobuf_walk import check_predict_request, described_inputs
from servable_tensors.signature import Signature
from servable_tensors.tensors import Array, Arrays, UnknownTypeError, fill, to_array
from servable_tensors.text_bodies import from_csv, from_json

# What the container takes without code, by whichever name: one value, lists, or lines.
TEXTS = {JSON: from_json, JSON_LINES: from_json, "application/jsons": from_json, CSV: from_csv}
TAKEN = (*TEXTS, NPY, NPZ, PROTOBUF)
# A text is parsed again to say what is wrong with it: a few times its size, 0.2 s a MB.
MOST_EXPLAINED_BYTES = 1 << 19
# What a PredictRequest may grow by, where it is made into arrays and then into text.
_MOST_REPEATED_BYTES = 1 << 20
_MOST_ELEMENTS_AS_TEXT = 1 << 20


def own_form(content_type: str) -> str:
    """The answer's form that goes with a request's. Raises `RequestError` for one that is not taken."""
    if content_type in TEXTS:
        return JSON
    if content_type in TAKEN:
        return content_type
    raise RequestError(
        415, f"Content-Type {content_type!r:.80} is not taken; send {', '.join(TAKEN)}"
    )


def decoded(content_type: str, body: bytes, signature: Signature) -> tuple[dict[str, Array], bool]:
    """Arrays that fit the signature, and whether the answer is due in rows. Raises `RequestError`."""
    rows = False
    if content_type in TEXTS:
        request = parse(TEXTS[content_type](body))
        try:
            arrays, rows = arrays_of(request, signature), "instances" in request
        except UnknownTypeError as bad:  # an input of a type that nobody can send
            raise RequestError(400, f"an input of the signature cannot be sent: {bad}") from None
    elif content_type == NPY:
        name = signature.only_input()
        arrays = {name: from_npy(body, name)}
    elif content_type == NPZ:
        arrays = from_npz(body, signature.check_names)
    else:
        arrays = _from_protobuf(body, signature)
    signature.check(arrays)
    return arrays, rows


def explain(content_type: str, body: bytes, signature: Signature) -> None:
    """Raises a `RequestError` that says what of the body does not fit the signature, where it does not.

    For a body that a model server has refused. Of a PredictRequest only names, types and shapes
    are looked at, of a text only one of up to 512 KiB.
    """
    if content_type == PROTOBUF:
        signature.check(described_inputs(body)[0])
    elif len(body) <= MOST_EXPLAINED_BYTES:
        decoded(content_type, body, signature)


def check_sendable_as_text(arrays: Arrays, body_bytes: int) -> None:
    """Raises `RequestError` for more elements than the body has bytes, beyond a million."""
    count = sum(array.size for array in arrays.values())
    if count > max(body_bytes, _MOST_ELEMENTS_AS_TEXT):
        raise RequestError(
            413,
            f'the body unpacks to {count} elements; with transport = "rest" at most '
            f"{_MOST_ELEMENTS_AS_TEXT} are allowed, or one for each byte: send less in one request",
        )


def encoded(form: str, arrays: Arrays, *, rows: bool, call: Call) -> bytes:
    """The answer's body in the form that was asked for. Raises `RequestError`."""
    if form == JSON:
        return as_rows(arrays) if rows else as_columns(arrays)
    if form == JSON_LINES:
        return as_lines(arrays)
    if form == CSV:
        return as_csv(arrays)
    if form == NPZ:
        return to_npz(arrays)
    if form == PROTOBUF:
        response = wire.PredictResponse(model_spec=call.model_spec())
        for name, array in arrays.items():
            fill(response.outputs[name], array)
        return bytes(response.SerializeToString())
    if len(arrays) != 1:
        names = ", ".join(arrays)
        raise RequestError(
            400, f"a .npy holds one tensor and the model gives {names}; accept {NPZ}"
        )
    return to_npy(next(iter(arrays.values())))


def _from_protobuf(body: bytes, signature: Signature) -> dict[str, Array]:
    check_predict_request(body)
    inputs, repeated_bytes = described_inputs(body)
    signature.check(inputs)
    if repeated_bytes > _MOST_REPEATED_BYTES:
        raise RequestError(
            400,
            f"single values stand for {repeated_bytes} bytes of tensors; at most "
            f'{_MOST_REPEATED_BYTES} are allowed with transport = "rest": send every value',
        )
    try:
        request = wire.PredictRequest.FromString(body)
    except DecodeError:
        raise RequestError(400, "the body is no PredictRequest") from None
    try:
        return {name: to_array(tensor) for name, tensor in sorted(request.inputs.items())}
    except UnknownTypeError as bad:
        raise RequestError(400, f"the body holds a tensor that cannot be read: {bad}") from None
