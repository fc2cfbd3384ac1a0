"""servable_handler/forms.py: what no other test reaches."""

import pytest

from servable_handler.forms import decoded
from servable_handler.refusal import RequestError
from servable_tensors.signature import Signature, TensorSpec


@pytest.mark.parametrize("number", [0, 20, 21, 24], ids=["invalid", "resource", "variant", "new"])
def test_an_input_of_a_type_that_nobody_can_send_is_400(number: int) -> None:
    signature = Signature("s", {"x": TensorSpec(number, None)}, {})
    with pytest.raises(RequestError, match="cannot be sent") as raised:
        decoded("application/json", b'{"inputs": 1}', signature)
    assert raised.value.status == 400
