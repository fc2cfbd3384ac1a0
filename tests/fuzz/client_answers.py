"""Answers of every format, and whether the client reads them as the formats' own libraries do.

The answers are the damaged bodies of requests with the names that answers have. protobuf's messages are
those of servable_tensors/wire.py, which tests hold against TensorFlow's; NumPy and json read the rest.
"""

import base64
import io
import itertools
import json
import math
import time
from collections import Counter
from typing import Any

import numpy as np

from servable_client.errors import BadAnswerError
from servable_client.formats import decode
from servable_tensors import wire
from servable_tensors.codecs import CODECS, JSON, NPY, NPZ, PROTOBUF
from tests.fuzz.body_generator import bodies
from tests.fuzz.body_reference import array_of, texts_of, unique_names

# At most 1 s on a quiet machine for 1 MB; here other tests run beside.
MOST_CPU_SECONDS = 5.0
CONTENT_TYPES = (JSON, NPY, NPZ, PROTOBUF)


class WrongAnswerError(AssertionError):
    """The client read what the reference reads otherwise, was slow, or raised another error."""


def as_answer(content_type: str, body: bytes) -> bytes:
    """The body of a request with the names, in protobuf the field numbers, that an answer has."""
    if content_type == JSON:
        return body.replace(b'"instances"', b'"predictions"').replace(b'"inputs"', b'"outputs"')
    if content_type != PROTOBUF:
        return body
    found, at = bytearray(body), 0
    while at < len(body) and body[at] in b"\x0a\x12":  # fields 1 and 2
        found[at] ^= 0x0A ^ 0x12
        length, shift, at = 0, 0, at + 1
        while at < len(body):
            length, shift, at = length | (body[at] & 0x7F) << shift, shift + 7, at + 1
            if body[at - 1] < 0x80:
                break
        at += length
    return bytes(found)


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """So many answers of each content type: what became of them, and the faults."""
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    for content_type in CONTENT_TYPES:
        for body in itertools.islice(bodies(content_type, seed), count):
            try:
                outcomes[check(content_type, as_answer(content_type, body.bytes))] += 1
            except WrongAnswerError as fault:
                faults.append(str(fault))
    return outcomes, faults


def check(content_type: str, body: bytes) -> str:
    """What became of an answer: "read" or "refused", behind its form. Raises `WrongAnswerError`."""
    # Twice: an answer of a form that was read before is read by what is known of it.
    outcomes = [_outcome(content_type, body) for _ in range(2)]
    if outcomes[0] != outcomes[1]:
        raise WrongAnswerError(f"{content_type}, {body[:200]!r}: {' and then '.join(outcomes)}")
    return f"{CODECS[content_type].form} {outcomes[-1]}"


def _outcome(content_type: str, body: bytes) -> str:
    where = f"{content_type}, {body[:200]!r}"
    began = time.process_time()
    try:
        found = decode(content_type, body)
    except BadAnswerError:
        return "refused"
    except Exception as error:
        raise WrongAnswerError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        seconds = time.process_time() - began
        if seconds > MOST_CPU_SECONDS:
            raise WrongAnswerError(f"{where}: {seconds:.1f} s of CPU")
    try:
        wanted = _REFERENCES[content_type](body)
    except Exception as error:  # whatever a library raises over damaged bytes
        raise WrongAnswerError(f"{where}: read {found}; the reference does not: {error}") from None
    if found.keys() != wanted.keys():
        raise WrongAnswerError(f"{where}: {list(found)}, wanted {list(wanted)}")
    same = _same_json if content_type == JSON else _same
    for name, array in found.items():
        if not same(array, wanted[name]):
            raise WrongAnswerError(f"{where}: {name}: {array!r}, wanted {wanted[name]!r}")
    return "read"


def _same(found: Any, wanted: Any) -> bool:
    if wanted.dtype.name == "bfloat16":
        wanted = wanted.astype(np.float32)  # exact; the client's arrays have no bfloat16
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    return bool(_values(found) == _values(wanted))


def _values(array: Any) -> Any:
    """Its bytes, with one byte for true and one NaN: ours makes 1 of any byte but 0, where NumPy keeps
    it, and the reference's Python floats make quiet NaNs of signalling ones."""
    if array.dtype == object:
        return array.tolist()
    if array.dtype.kind == "b":
        return bytes(np.where(array, 1, 0).astype(np.uint8).tobytes())
    if array.dtype.kind not in "fc":
        return bytes(array.tobytes())
    parts = np.ascontiguousarray(array).reshape(-1).view(array.real.dtype)
    return bytes(np.where(np.isnan(parts), np.nan, parts).astype(parts.dtype).tobytes())


def _same_json(found: Any, wanted: Any) -> bool:
    def equal(a: Any, b: Any) -> bool:
        if isinstance(b, list):
            return isinstance(a, list) and len(a) == len(b) and all(map(equal, a, b))
        if any(isinstance(a, kind) != isinstance(b, kind) for kind in (bool, bytes)):
            return False
        return bool(a == b) or (a != a and b != b)

    return equal(found.tolist(), wanted)


# --- what the libraries read


def _protobuf(body: bytes) -> dict[str, Any]:
    response = wire.PredictResponse.FromString(body)
    return {name: array_of(tensor) for name, tensor in response.outputs.items()}


def _npy(body: bytes) -> dict[str, Any]:
    return {"output": _texts(np.load(io.BytesIO(body), allow_pickle=False))}


def _npz(body: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        found = {name: archive[name] for name in archive.files}
    if not all(isinstance(array, np.ndarray) for array in found.values()):
        raise ValueError("a member that is no array")
    return {name: _texts(array) for name, array in found.items()}


def _texts(array: Any) -> Any:
    if array.dtype.kind not in "SU":
        return array
    texts = np.empty(array.size, object)
    texts[:] = texts_of(array)
    return texts.reshape(array.shape)


def _json(body: bytes) -> dict[str, Any]:
    """Python's values as json has them: numbers, never rounded; strings as bytes."""
    answer = json.loads(body, parse_float=_number, object_pairs_hook=unique_names)
    found = answer["outputs"] if "outputs" in answer else answer["predictions"]
    rows = "outputs" not in answer and found and all(isinstance(row, dict) for row in found)
    if rows and not any(row.keys() == {"b64"} for row in found):
        found = {name: [row[name] for row in found] for name in found[0]}
    if not isinstance(found, dict) or found.keys() == {"b64"}:
        found = {"output": found}
    return {name: _plain(value) for name, value in found.items()}


def _number(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError("above float64's maximum")
    return float(text)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        if value.keys() != {"b64"}:
            raise ValueError("an object")
        return base64.b64decode(value["b64"], validate=True)
    return value


_REFERENCES = {JSON: _json, NPY: _npy, NPZ: _npz, PROTOBUF: _protobuf}
