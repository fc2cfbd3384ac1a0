"""Compare requests and responses that are known beforehand with the signature that serves them.

It doesn't use NumPy or TensorFlow: `servable check` reads them before anything is deployed. Warm-up
records, `<version>/assets.extra/tf_serving_warmup_requests`, are a TFRecord file of PredictionLog. The
whole model fails to load if a record fails, so each record is checked here.
Sources: https://www.tensorflow.org/tfx/serving/api_rest (2026-11-22); util/json_tensor.cc,
batching/batching_util.h and servables/tensorflow/{predict_util,classifier,regressor}.cc of
https://github.com/tensorflow/serving (9d981c5, 2026-11-22);
https://www.tensorflow.org/tfx/serving/saved_model_warmup
"""

import ast
import enum
import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from model_packaging.beside import write_atomically
from model_packaging.inputs import Servable
from model_packaging.refusal import PackagingError
from model_packaging.requests.json_requests import (
    ELEMENT_CODES,
    RequestValueError,
    build_predict_request,
    check_shape,
    find_signature,
    flatten_lists,
    format_names,
    name_only_input,
    parse_json,
)
from model_packaging.saved_model.reading import (
    DEFAULT_SIGNATURE,
    WARM_UP,
    SavedModelInfo,
    SignatureInfo,
    TensorInfo,
    read,
)
from servable_tensors import format_shape, is_shape_allowed, text_bodies, tfrecord, wire

Shapes = Mapping[str, tuple[int, ...]]

JSON, CSV, NPY = "application/json", "text/csv", "application/x-npy"
PROTOBUF, NPZ = "application/x-protobuf", "application/x-npz"
_NUMBERS = frozenset(ELEMENT_CODES) - {"bool"} | {"bfloat16"}
_NPY_TYPES = {"b1": "bool"} | {
    f"{kind}{size}": f"{word}{8 * size}"
    for kind, word in (("f", "float"), ("i", "int"), ("u", "uint"))
    for size in (1, 2, 4, 8)
}


class Reader(enum.Enum):
    """What reads a request's body in the container; the value is its name in a sentence."""

    NGINX = "a container without code"
    SERVABLE = "Servable's handler"
    CODE = "the model's code"
    """The user's own handler, or the hook preprocess: the formats that it accepts are unknown."""


TYPES_READ = {
    Reader.NGINX: (JSON, "application/jsonlines", "application/jsons", CSV),
    Reader.SERVABLE: (JSON, *text_bodies.TYPES_OF_JSON_LINES, CSV, NPY, NPZ, PROTOBUF),
}


class KnownRequest(NamedTuple):
    """A request that the signature accepts, and the shapes of its inputs.

    `answered_in`: the response's JSON key of the result; None if the response isn't JSON.
    """

    signature: SignatureInfo
    shapes: Shapes
    answered_in: str | None = None


def read_request(
    body: bytes, content_type: str, info: SavedModelInfo | None, reader: Reader
) -> KnownRequest | None:
    """Check a request and return it; None if code reads it, `info` is None, or the body is NPZ.

    Raises `RequestValueError`, which completes the sentence that begins with "the request".
    """
    kind = content_type.partition(";")[0].strip().lower()
    if not body.strip():
        raise RequestValueError("is empty")
    if reader is Reader.CODE or info is None:
        if kind == JSON:
            _parse_body(body, kind)
        return None
    if kind not in TYPES_READ[reader]:
        taken = ", ".join(TYPES_READ[reader])
        raise RequestValueError(f"is sent as {kind}; {reader.value} accepts {taken}")
    if kind == NPY:
        return _read_npy(body, info)
    if kind == NPZ:
        return None
    if kind == PROTOBUF:
        try:
            message = wire.PredictRequest.FromString(body)
        except DecodeError:
            raise RequestValueError("is not a PredictRequest") from None
        return KnownRequest(_find_signature(info, message), check_inputs(message, info))
    request = _parse_body(body, kind)
    message = build_predict_request(request, info, model="", rest=True)
    answered_in = None
    if kind == JSON or reader is Reader.NGINX:
        answered_in = "predictions" if "instances" in request else "outputs"
    return KnownRequest(_find_signature(info, message), extract_shapes(message), answered_in)


def _parse_body(body: bytes, kind: str) -> Any:
    """Return the JSON that the model server receives. Raises `RequestValueError`."""
    try:
        convert = text_bodies.from_csv if kind == CSV else text_bodies.from_json
        return parse_json(convert(body))
    except RequestValueError:
        if kind == JSON:
            parse_json(body)  # its error has the line and column of the file
        raise


def _find_signature(info: SavedModelInfo, request: Any) -> SignatureInfo:
    return find_signature(request.model_spec.signature_name or DEFAULT_SIGNATURE, info)


def _read_npy(body: bytes, info: SavedModelInfo) -> KnownRequest:
    """Check the header of a .npy body, and return its request. Raises `RequestValueError`.

    Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html (2026-11-22)
    """
    try:
        at = 12 if body[6] > 1 else 10
        end = at + int.from_bytes(body[8:at], "little")
        header = ast.literal_eval(body[at:end].decode("latin-1"))
        shape, code = tuple(header["shape"]), header["descr"].lstrip("<>|=")
    except (ValueError, TypeError, KeyError, IndexError, SyntaxError, AttributeError):
        raise RequestValueError("is not a .npy file") from None
    signature = _find_signature(info, wire.PredictRequest())
    (name,) = name_only_input(signature.inputs, None)
    spec, given = signature.inputs[name], _NPY_TYPES.get(code)
    if given is not None and spec.dtype in {*ELEMENT_CODES, "string"} and given != spec.dtype:
        raise RequestValueError(f"is {given}; {name} expects {spec.dtype}")
    check_shape(shape, spec)
    return KnownRequest(signature, {name: shape})


def check_inputs(request: Any, info: SavedModelInfo) -> Shapes:
    """Return the shapes of a wire.PredictRequest's inputs.

    Raises `RequestValueError` if the inputs don't match the signature.
    """
    signature, given = _find_signature(info, request), set(request.inputs)
    expected = signature.inputs
    if not set(expected) - set(signature.defaults) <= given <= set(expected):
        inputs = ", ".join(sorted(given)) or "no input"
        raise RequestValueError(f"gives {inputs}; the signature expects {', '.join(expected)}")
    if unknown := set(request.output_filter) - set(signature.outputs):
        outputs = format_names(signature.outputs)
        raise RequestValueError(f"asks for {min(unknown)}; the signature returns {outputs}")
    for key in sorted(given):
        try:
            _check_tensor(request.inputs[key], expected[key])
        except RequestValueError as bad:
            raise RequestValueError(f"gives {key} {bad}") from None
    return extract_shapes(request)


def _check_tensor(tensor: Any, spec: TensorInfo) -> None:
    if (given := wire.find_dtype_name(tensor.dtype)) != spec.dtype:
        raise RequestValueError(f"as {given}; the signature expects {spec.dtype}")
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_shape.unknown_rank or min(shape, default=0) < 0:
        raise RequestValueError("without its shape")
    try:
        check_shape(shape, spec)
    except RequestValueError as bad:
        raise RequestValueError(f"that {bad}") from None
    content, code = len(tensor.tensor_content), ELEMENT_CODES.get(spec.dtype)
    if content and code and content != (size := math.prod(shape) * struct.calcsize(code)):
        given = f"of shape {format_shape(shape)} with {content} bytes of content"
        raise RequestValueError(f"{given}; {spec.dtype} needs {size}")


def extract_shapes(request: Any) -> Shapes:
    """Return the shapes of a wire.PredictRequest's inputs, by name."""
    inputs = sorted(request.inputs.items())
    return {key: tuple(dim.size for dim in item.tensor_shape.dim) for key, item in inputs}


def check_examples(request: Any, info: SavedModelInfo, method: str) -> Shapes:
    """Return the shapes of a classify or regress request, whose examples are rows.

    Raises `RequestValueError` if the request doesn't match the signature.
    """
    signature = _find_signature(info, request)
    if signature.method != f"tensorflow/serving/{method}" or set(signature.inputs) != {"inputs"}:
        problem = f"requests {method} from a signature that doesn't support it; use one that does"
        raise RequestValueError(problem)
    if request.input.WhichOneof("kind") is None:
        return {}  # examples with a context are not counted here
    count = len(request.input.example_list.examples)
    if not count:
        raise RequestValueError("contains no example")
    return {"inputs": (count,)}


def check_batch(shapes: Shapes, max_batch_size: int | None) -> None:
    """Raise `RequestValueError` if batching rejects these inputs; None: batching is off."""
    if max_batch_size is None:
        return
    rows = {name: shape[0] for name, shape in shapes.items() if shape}
    if len(rows) < len(shapes) or len(set(rows.values())) > 1:
        each = ", ".join(f"{name} {format_shape(shape)}" for name, shape in shapes.items())
        problem = f"gives {each}; batching requires inputs with the same number of rows"
        raise RequestValueError(problem)
    if (most := max(rows.values(), default=0)) > max_batch_size:
        why = f"which batching rejects: max_batch_size is {max_batch_size}"
        raise RequestValueError(f"has {most} rows, {why}")


def explain_unbatchable(signature: SignatureInfo) -> str | None:
    """Explain why requests of a signature can't be merged along the first dimension, or return None."""
    for way, specs in (("input", signature.inputs), ("output", signature.outputs)):
        for name, spec in specs.items():
            if spec.shape is not None and (not spec.shape or spec.shape[0] is not None):
                return f"its {way} {name} has shape {format_shape(spec.shape)}"
    return None if signature.inputs else "it has no inputs"


def check_response(body: bytes, request: KnownRequest) -> None:
    """Raise `RequestValueError` if the signature can't return this body.

    The error's text completes a sentence that begins with "the answer".
    """
    key, specs = request.answered_in, request.signature.outputs
    if key is None:
        return
    answer = parse_json(body)
    if not isinstance(answer, dict) or key not in answer:
        form = "instances" if key == "predictions" else "inputs"
        raise RequestValueError(f'has no "{key}", the key of the response to "{form}"')
    value = answer[key]
    if key == "predictions":
        rows = max((shape[0] for shape in request.shapes.values() if shape), default=0)
        if not isinstance(value, list) or len(value) != rows:
            given = f"{len(value)} rows" if isinstance(value, list) else "no list of rows"
            raise RequestValueError(f"has {given}; the request has {rows}")
        if len(specs) > 1:
            named = [_check_names(row, specs) for row in value]
            value = {name: [row[name] for row in named] for name in specs}
    columns = _check_names(value, specs) if len(specs) > 1 else dict.fromkeys(specs, value)
    for name, spec in specs.items():
        shape, values = flatten_lists(columns[name])
        if not is_shape_allowed(shape, spec.shape):
            given, expected = format_shape(shape), format_shape(spec.shape or ())
            problem = f"gives {name} of shape {given}; the signature returns {expected}"
            raise RequestValueError(problem)
        if wrong := [item for item in values if not _is_value_of(item, spec.dtype)]:
            raise RequestValueError(f"gives {wrong[0]!r:.40} in {name}, which is {spec.dtype}")


def _check_names(columns: Any, specs: Mapping[str, TensorInfo]) -> dict[str, Any]:
    if not isinstance(columns, dict) or set(columns) != set(specs):
        given = format_names(columns) if isinstance(columns, dict) else "no names"
        raise RequestValueError(f"gives {given}; the signature returns {format_names(specs)}")
    return columns


def _is_value_of(value: Any, dtype: str) -> bool:
    if dtype == "string":
        return isinstance(value, str) or (isinstance(value, dict) and set(value) == {"b64"})
    if dtype == "bool":
        return isinstance(value, bool)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number or dtype not in _NUMBERS


# tensorflow_serving/servables/tensorflow/saved_model_warmup_util.h: with more, loading fails.
MOST_RECORDS = 1000


def build_warm_up(
    model: str,
    requests: Mapping[Path, Any],
    info: SavedModelInfo,
    *,
    max_batch_size: int | None = None,
) -> bytes:
    """Return the content of the warm-up file; the same requests give the same bytes.

    `requests`: JSON, by rows or by columns, by golden request file. Raises `PackagingError`.
    """
    if len(requests) > MOST_RECORDS:
        problem = (
            f"would contain {len(requests)} warm-up requests; at most {MOST_RECORDS} are allowed"
        )
        raise PackagingError(info.folder, problem, "remove some; a few of each size are enough")
    records = []
    for file, request in requests.items():
        log = wire.PredictionLog()
        try:
            message = build_predict_request(request, info, model=model)
            check_batch(extract_shapes(message), max_batch_size)
            log.predict_log.request.CopyFrom(message)
        except RequestValueError as bad:
            raise PackagingError(file, f"the request {bad}", "correct the request") from None
        # Deterministic: the order of a map's entries is otherwise protobuf's own.
        records.append(log.SerializeToString(deterministic=True))
    return tfrecord.frame_records(records)


def add_warm_up(servable: Servable, requests: Sequence[Path], *, folder: Path) -> Servable:
    """Return the servable with warm-up records for each of its versions, written below `folder`.

    Raises `PackagingError` for a request that a version rejects, because that version would not load.
    """
    bodies = {file: read_golden_request(file) for file in requests}
    files = {
        number: build_warm_up(servable.name, bodies, read(version))
        for number, version in servable.find_versions().items()
    }
    target = folder / hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    for number, content in files.items():
        file = target / str(number) / WARM_UP.name
        if not file.is_file():
            write_atomically(file, content)
    return replace(servable, warm_up=target)


def read_golden_request(file: Path) -> Any:
    """Return the request body in a file. Raises `PackagingError`."""
    try:
        return parse_json(file.read_bytes())
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise PackagingError(file, problem, "check the golden request's path") from None
    except RequestValueError as bad:
        raise PackagingError(file, str(bad), "write a file with one request body") from None


def check_warm_up(file: Path, info: SavedModelInfo, *, max_batch_size: int | None = None) -> int:
    """Check a warm-up file, and return the number of its records. Raises `PackagingError`, OSError.

    `max_batch_size`: the limit of server-side batching; None if batching is off.
    """
    count = 0
    try:
        with file.open("rb") as opened:
            for count, record in enumerate(tfrecord.read_records(opened), start=1):
                if count > MOST_RECORDS:
                    problem = f"contains more than {MOST_RECORDS} records"
                    raise PackagingError(file, problem, "remove some, or the model doesn't load")
                log = wire.PredictionLog.FromString(record)
                check_batch(_check_record(log, info), max_batch_size)
    except tfrecord.RecordError as bad:
        raise PackagingError(file, f"is damaged: {bad}", "write it again") from None
    except DecodeError:
        problem = f"record {count - 1} is not a PredictionLog"
        raise PackagingError(file, problem, "write PredictionLog records") from None
    except RequestValueError as bad:
        problem = f"record {count - 1} {bad}"
        raise PackagingError(file, problem, "write it again for this model") from None
    return count


def _check_record(log: Any, info: SavedModelInfo) -> Shapes:
    """Return the shapes of a record's inputs, as far as they are known. Raises `RequestValueError`."""
    kind = log.WhichOneof("log_type")
    if kind is None:
        raise RequestValueError("contains no request")
    if kind == "predict_log":
        # Its name is not compared: every record goes to the model that is loaded.
        return check_inputs(log.predict_log.request, info)
    if kind in ("classify_log", "regress_log"):
        return check_examples(getattr(log, kind).request, info, kind.removesuffix("_log"))
    if kind != "multi_inference_log":
        raise RequestValueError(f"is a {kind}, which TensorFlow Serving does not replay")
    return {}  # several requests in one: they are not read here
