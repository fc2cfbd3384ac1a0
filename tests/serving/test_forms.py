"""serving/forms.py: what no other test reaches."""

import pytest

from serving.forms import decoded
from serving.refusal import Refusal
from serving.signature import Signature, TensorSpec


@pytest.mark.parametrize("number", [0, 20, 21, 24], ids=["invalid", "resource", "variant", "new"])
def test_an_input_of_a_type_that_nobody_can_send_is_400(number: int) -> None:
    signature = Signature("s", {"x": TensorSpec(number, None)}, {})
    with pytest.raises(Refusal, match="cannot be sent") as raised:
        decoded("application/json", b'{"inputs": 1}', signature)
    assert raised.value.status == 400
