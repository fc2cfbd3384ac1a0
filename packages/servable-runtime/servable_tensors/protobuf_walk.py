"""Check of a serialized PredictRequest before anything parses it.

An 18-byte tensor may claim 1.5e9 elements with one value for all: TensorFlow's own parser
then takes seconds and gigabytes. So shapes are compared with what was really sent, in the wire
format itself and without building messages. What passes has the same meaning for protobuf's
parsers as here.
Source: https://protobuf.dev/programming-guides/encoding, tensorflow/core/framework/tensor.proto,
tensorflow/core/framework/tensor.cc (Tensor::FromProto), tensorflow_serving/apis/predict.proto
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from servable_tensors import TensorError, wire
from servable_tensors.signature import TensorDescription
from servable_tensors.tensor_walk import (
    LayoutCache,
    Range,
    Tensor,
    count_values,
    read_tensor,
    read_text,
)
from servable_tensors.tensors import (
    BOOL,
    MOST_TENSOR_BYTES,
    STRING,
    count_elements,
    find_array_dtype,
    find_element_bytes,
    find_value_bounds,
    find_value_field,
)
from servable_tensors.wire import BYTES, VARINT, WireError, iterate_fields

MOST_INPUTS = 4096
MOST_FIELDS = 10_000  # of a request, besides those of its inputs

_MIB = 1 << 20
_MODEL_SPEC = (1, 3, 4)  # name, signature_name and version_label; 2 is the version


class DescribedRequest(NamedTuple):
    """The model and the inputs' ranks of a message that may be relayed."""

    model_named: bool
    spec: bytes
    """The serialized ModelSpec, several joined as parsers merge them."""
    ranks: Mapping[str, int]
    """Rank of each input."""


class _ParsedRequest(NamedTuple):
    described: DescribedRequest
    truths: tuple[Range, ...]
    """Positions of the contents of bool tensors: each byte must be 0 or 1."""


_SEEN: LayoutCache[_ParsedRequest] = LayoutCache()


def check_predict_request(body: bytes) -> DescribedRequest:
    """Check a PredictRequest and describe it. Raises `TensorError` (400) for what must not be relayed."""
    request = _SEEN.get(body)
    if request is None:
        named, spec, tensors, _ = _walk_request(body)
        ranks = {name: len(tensor.sizes) for name, tensor in tensors.items()}
        contents = [
            (tensor.content_at, tensor.dtype)
            for tensor in tensors.values()
            if tensor.content_at and tensor.content_bytes
        ]
        truths = tuple(place for place, dtype in contents if dtype == BOOL)
        request = _ParsedRequest(DescribedRequest(named, spec, ranks), truths)
        _SEEN.keep(body, [place for place, _ in contents], request)
    for start, end in request.truths:
        if np.frombuffer(body, np.uint8, end - start, start).max() > 1:
            raise TensorError("a bool tensor contains a byte that is neither 0 nor 1")
    return request.described


def has_named_model(body: bytes) -> bool:
    """Return whether a ClassificationRequest or RegressionRequest names a model. Raises `TensorError`."""
    named = False
    try:
        for number, kind, start, end in iterate_fields(body, 0, len(body)):
            if number == 1:
                _require_bytes(number, kind)
                named = _has_model_name(body, start, end, named)
    except WireError as bad:
        raise TensorError(f"the body isn't a request of this method: {bad}") from None
    return named


def describe_inputs(body: bytes) -> tuple[dict[str, TensorDescription], int]:
    """Return the inputs by name, and the bytes beyond those sent. Raises `TensorError`.

    A tensor has more bytes than were sent where one value stands for all.
    """
    _, _, tensors, repeated_bytes = _walk_request(body)
    inputs = {
        name: TensorDescription(find_array_dtype(tensor.dtype), tuple(tensor.sizes))
        for name, tensor in tensors.items()
    }
    return inputs, repeated_bytes


def _walk_request(body: bytes) -> tuple[bool, bytes, dict[str, Tensor], int]:
    tensors: dict[str, Tensor] = {}
    specs: list[bytes] = []
    named, repeated, count = False, 0, 0
    try:
        for number, kind, start, end in iterate_fields(body, 0, len(body)):
            count += 1
            if count > MOST_FIELDS:
                raise WireError(f"it has more than {MOST_FIELDS} fields")
            if number in (1, 2, 3):
                _require_bytes(number, kind)
            if number == 1:
                named = _has_model_name(body, start, end, named)
                specs.append(body[start:end])
            elif number == 2:
                name, tensor = _read_input(body, start, end)
                if name in tensors:
                    raise TensorError(f"{name:.60}: the body contains this input twice")
                if len(tensors) == MOST_INPUTS:
                    raise TensorError(f"the body has more than {MOST_INPUTS} inputs; send fewer")
                tensors[name] = tensor
                try:
                    repeated += _count_repeated_bytes(body, tensor)
                except WireError as bad:
                    raise TensorError(f"{name:.60}: {bad}") from None
                if repeated > MOST_TENSOR_BYTES:
                    raise TensorError(
                        f"{name:.60}: with single values repeated, the inputs take more "
                        f"than {MOST_TENSOR_BYTES // _MIB} MiB together; send less in one request"
                    )
            elif number == 3:
                read_text(body, start, end)
    except WireError as bad:
        raise TensorError(f"the body is no PredictRequest: {bad}") from None
    return named, b"".join(specs), tensors, repeated


def _has_model_name(body: bytes, start: int, end: int, named: bool) -> bool:
    """Return whether a name is given after this ModelSpec; `named`: before. Parsers merge several."""
    for number, kind, first, last in iterate_fields(body, start, end):
        if number in _MODEL_SPEC:
            _require_bytes(number, kind)
            read_text(body, first, last)
            named = last > first if number == 1 else named
        elif number == 2:
            _require_bytes(number, kind)
            if any(field[:2] != (1, VARINT) for field in iterate_fields(body, first, last)):
                raise WireError("the model's version isn't a number")
    return named


def _read_input(body: bytes, start: int, end: int) -> tuple[str, Tensor]:
    # A parser would merge two tensors: each harmless, a bomb together.
    places = wire.read_single_fields(body, start, end, {1: BYTES, 2: BYTES}, "an input")
    if 1 not in places or not (name := read_text(body, *places[1])):
        raise WireError("an input has no name")
    try:
        return name, read_tensor(body, *places.get(2, (end, end)))
    except WireError as bad:
        raise TensorError(f"{name:.60}: {bad}") from None


def _count_repeated_bytes(body: bytes, tensor: Tensor) -> int:
    """Count the bytes that the tensor takes beyond those that were sent. Raises `WireError`."""
    size = find_element_bytes(tensor.dtype)
    shape = f"[{', '.join(map(str, tensor.sizes[:8]))}{', …' if len(tensor.sizes) > 8 else ''}]"
    shown = f"got {wire.find_dtype_name(tensor.dtype)} {shape}"
    if size is None:
        raise WireError(f"{shown}, a type that a request can't contain")
    if tensor.unknown_rank or min(tensor.sizes, default=0) < 0:
        raise WireError(f"{shown}, whose shape is not fully known")
    count = count_elements(tensor.sizes, MOST_TENSOR_BYTES // size)
    if count is None:
        problem = f"{shown}, which exceeds {MOST_TENSOR_BYTES // _MIB} MiB"
        raise WireError(f"{problem}; send less in one request")
    field = find_value_field(tensor.dtype)
    values, least, greatest = count_values(body, tensor, field)
    if tensor.content_bytes:
        if tensor.dtype == STRING:
            raise WireError(f"{shown}, with tensor_content; send strings in string_val")
        if tensor.content_bytes != count * size:
            problem = f"{shown}, {count * size} bytes, with {tensor.content_bytes} bytes of content"
            raise WireError(problem)
        if tensor.single or tensor.packed_at:
            raise WireError(f"{shown} with both tensor_content and values; send one of them")
        return 0
    if field in ("scomplex_val", "dcomplex_val"):
        if values % 2:
            raise WireError(f"{shown} with {values} parts of complex numbers; send an even number")
        values //= 2
    # One value stands for all. Fewer than wanted, but more than one, does not.
    if values != count and (values != 1 or not count):
        raise WireError(f"{shown}, {count} elements, with {values} values; send one per element")
    if {*tensor.single, *tensor.packed_at} - {field}:
        problem = f"{shown}, with values of a different type than its own; send them in {field}"
        raise WireError(problem)
    low, high = find_value_bounds(tensor.dtype)
    if least < low or greatest > high:
        wrong = least if least < low else greatest
        raise WireError(f"{shown}, with {wrong} in {field}, which the type can't represent")
    # A string that stands for all is copied for each of them.
    return count * (size + tensor.string_bytes) if values == 1 < count else 0


def _require_bytes(number: int, kind: int) -> None:
    if kind != BYTES:
        raise WireError(f"field {number} has the wire type {kind}, which isn't allowed")
