"""servable_tensors/codecs.py, and predict_messages.py with its cache of layouts."""

from typing import Any

import numpy as np
import pytest

from servable_client import BadInputError, FakeEndpoint, formats
from servable_handler import prediction
from servable_handler.request import convert_error
from servable_tensors import TensorError, wire
from servable_tensors.codecs import CODECS, JSON, Codec, NpyCodec
from servable_tensors.predict_messages import build_model_spec, read_arrays
from servable_tensors.signature import Signature, TensorSpec
from servable_tensors.tensor_walk import LayoutCache
from servable_tensors.tensors import to_proto

OWN = "application/x-own"


class OwnCodec(NpyCodec):
    """One that nobody but this file knows."""

    content_type, form = OWN, "own"


@pytest.fixture
def with_own(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(CODECS, OWN, OwnCodec())
    formats.load_codecs.cache_clear()
    prediction.choose_content_type.cache_clear()
    yield
    formats.load_codecs.cache_clear()
    prediction.choose_content_type.cache_clear()


@pytest.mark.usefixtures("with_own")
def test_a_class_in_the_table_is_named_by_an_accept_header_and_by_the_client() -> None:
    assert prediction.choose_content_type(OWN, JSON) == OWN
    sent = FakeEndpoint(lambda x: {"y": x}).predict([1.5, 2.5], format="own")
    assert sent["y"].tolist() == [1.5, 2.5]


def test_what_is_not_in_the_table_is_neither() -> None:
    assert prediction.choose_content_type(OWN, JSON) == JSON
    with pytest.raises(BadInputError, match="use one of json, npy, npz, protobuf"):
        FakeEndpoint(lambda x: {"y": x}).predict([1.5], format="own")


@pytest.mark.parametrize(
    "codec", dict.fromkeys(CODECS.values()), ids=lambda codec: codec.content_type
)
def test_what_is_handed_on_is_what_would_be_written(codec: Codec) -> None:
    output = np.arange(6, dtype="<f4").reshape(2, 3)
    response = wire.PredictResponse(model_spec=build_model_spec("m", 7, "s"))
    response.outputs["y"].CopyFrom(to_proto(output))
    handed = codec.relay_reply(response.SerializeToString())
    written = codec.encode_response(
        {"y": output}, rows=False, model_spec=lambda: build_model_spec("m", 7, "s")
    )
    assert handed in (None, written)
    assert (handed is not None) == (codec.form in ("npy", "protobuf"))


@pytest.mark.parametrize("number", [0, 20, 21, 24], ids=["invalid", "resource", "variant", "new"])
def test_an_input_of_a_type_that_nobody_can_send_is_400(number: int) -> None:
    signature = Signature("s", {"x": TensorSpec(number, None)}, {})
    with pytest.raises(TensorError, match="cannot send an input of the signature") as raised:
        CODECS["application/json"].read_request(b'{"inputs": 1}', signature)
    assert convert_error(raised.value).status == 400


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
