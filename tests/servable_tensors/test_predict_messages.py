"""servable_tensors/predict_messages.py, with the cache of layouts: what protobuf reads, read again or not."""

from contextlib import suppress
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
from google.protobuf.message import DecodeError
from hypothesis import given

from servable_tensors import wire
from servable_tensors.predict_messages import read_arrays
from servable_tensors.tensor_walk import LayoutCache
from servable_tensors.tensors import UnknownTypeError, to_array, to_proto

SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
TYPES = st.sampled_from(["<f4", "<f8", "<i8", "<i4", "u1", "?", "<c8", "<c16", "<f2", "<u8"])
ARRAYS = TYPES.flatmap(lambda dtype: arrays.arrays(dtype, SHAPES))


def reply(outputs: dict[str, Any], *, listed: bool = False) -> bytes:
    """`listed`: floats in float_val and double_val, as TensorFlow Serving writes them."""
    response = wire.PredictResponse()
    response.model_spec.name = "m"
    for name, array in outputs.items():
        tensor = response.outputs[name]
        tensor.CopyFrom(to_proto(array))
        field = {"<f4": "float_val", "<f8": "double_val"}.get(array.dtype.str)
        if listed and field:
            tensor.ClearField("tensor_content")
            getattr(tensor, field).extend(array.ravel().tolist())
    return bytes(response.SerializeToString())


def through_protobuf(message: bytes) -> dict[str, Any]:
    outputs = wire.PredictResponse.FromString(message).outputs
    return {name: to_array(tensor) for name, tensor in sorted(outputs.items())}


def same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return [*found] == [*wanted] and all(
        found[name].dtype == wanted[name].dtype
        and found[name].shape == wanted[name].shape
        and np.ascontiguousarray(found[name]).tobytes()
        == np.ascontiguousarray(wanted[name]).tobytes()
        for name in wanted
    )


@given(st.dictionaries(st.sampled_from(["a", "b", "ä"]), ARRAYS, max_size=3), st.booleans())
def test_answers_are_read_as_protobuf_reads_them(outputs: dict[str, Any], listed: bool) -> None:
    message = reply(outputs, listed=listed)
    assert same(read_arrays(message), through_protobuf(message))


def test_a_form_that_was_seen_gives_the_new_numbers_and_another_is_read_anew() -> None:
    for listed in [False, True]:
        for number in range(3):
            array = np.full((2, 3), number, np.float32)
            assert read_arrays(reply({"y": array}, listed=listed))["y"].tolist() == array.tolist()
    read_arrays(reply({"y": np.zeros((2, 3), np.float32)}))
    assert read_arrays(reply({"y": np.zeros((3, 2), np.float32)}))["y"].shape == (3, 2)


@given(st.data())
def test_a_damaged_answer_is_what_protobuf_makes_of_it(data: st.DataObject) -> None:
    message = bytearray(reply({"y": np.ones((2, 2), np.float32)}, listed=data.draw(st.booleans())))
    read_arrays(bytes(message))  # its form is known
    message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    try:
        wanted = through_protobuf(bytes(message))
    except (DecodeError, UnknownTypeError):
        # Damage where we do not look, as in the model's name, goes unseen.
        with suppress(DecodeError, UnknownTypeError):
            read_arrays(bytes(message))
    else:
        assert same(read_arrays(bytes(message)), wanted)


def test_few_and_small_forms_are_kept() -> None:
    seen: LayoutCache[int] = LayoutCache()
    seen.keep(bytes(2000), [(0, 900)], 1)
    assert seen.get(bytes(2000)) is None

    seen = LayoutCache()
    for length in range(1000):
        seen.keep(bytes(length), [], length)
    assert len(seen._by_length) <= 64
