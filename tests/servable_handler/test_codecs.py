"""servable_tensors/codecs.py: what no other test reaches."""

import pytest

from servable_handler.refusal import refusal_of
from servable_tensors import TensorError
from servable_tensors.codecs import CODECS
from servable_tensors.signature import Signature, TensorSpec


@pytest.mark.parametrize("number", [0, 20, 21, 24], ids=["invalid", "resource", "variant", "new"])
def test_an_input_of_a_type_that_nobody_can_send_is_400(number: int) -> None:
    signature = Signature("s", {"x": TensorSpec(number, None)}, {})
    with pytest.raises(TensorError, match="cannot be sent") as raised:
        CODECS["application/json"].read_request(b'{"inputs": 1}', signature)
    assert refusal_of(raised.value).status == 400
