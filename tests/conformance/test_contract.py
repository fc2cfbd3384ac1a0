"""What SageMaker and the image's nginx.conf require of every container."""

import pytest

from tests.conformance.asking import Endpoint
from tests.servable_local.container.asked_container import AskedContainer
from tests.servable_local.container.container_contract import CHECKS

pytestmark = pytest.mark.long

# "within 250 ms" and "within 2 s" are for a container of its own, and not for a busy computer.
UNTIMED = [sentence for sentence in CHECKS if "within" not in sentence]


@pytest.mark.parametrize("sentence", UNTIMED)
def test_without_code_the_contract_holds(sentence: str, plain: Endpoint) -> None:
    assert CHECKS[sentence](AskedContainer(plain.url)) is None


@pytest.mark.parametrize("sentence", UNTIMED)
def test_with_code_the_contract_holds(sentence: str, coded: Endpoint) -> None:
    assert CHECKS[sentence](AskedContainer(coded.url)) is None
