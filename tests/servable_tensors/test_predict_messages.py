"""servable_tensors/predict_messages.py, with the cache of layouts: what protobuf reads, read again or not."""

from typing import Any

import numpy as np

from servable_tensors import wire
from servable_tensors.predict_messages import read_arrays
from servable_tensors.tensor_walk import LayoutCache
from servable_tensors.tensors import to_proto


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


def test_a_form_that_was_seen_gives_the_new_numbers_and_few_are_kept() -> None:
    for listed in [False, True]:
        for number in range(3):
            array = np.full((2, 3), number, np.float32)
            assert read_arrays(reply({"y": array}, listed=listed))["y"].tolist() == array.tolist()
    read_arrays(reply({"y": np.zeros((2, 3), np.float32)}))
    assert read_arrays(reply({"y": np.zeros((3, 2), np.float32)}))["y"].shape == (3, 2)

    seen: LayoutCache[int] = LayoutCache()
    seen.keep(bytes(2000), [(0, 900)], 1)
    assert seen.get(bytes(2000)) is None

    seen = LayoutCache()
    for length in range(1000):
        seen.keep(bytes(length), [], length)
    assert len(seen._by_length) <= 64


def test_of_an_output_that_appears_twice_the_last_counts() -> None:
    three, two = (reply({"y": np.full(size, size, np.float32)}) for size in (3, 2))
    assert read_arrays(three + two)["y"].tolist() == [2, 2]
    assert read_arrays(two + three)["y"].tolist() == [3, 3, 3]
