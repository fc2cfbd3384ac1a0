"""servable_tensors/codecs.py: a content type is one class; what is handed on is what would be written."""

from typing import Any

import numpy as np
import pytest

from servable_client import BadInputError, FakeEndpoint, formats
from servable_handler import prediction
from servable_handler.request import convert_error
from servable_tensors import TensorError, wire
from servable_tensors.codecs import CODECS, JSON, Codec, NpyCodec
from servable_tensors.predict_messages import build_model_spec
from servable_tensors.signature import Signature, TensorSpec
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
