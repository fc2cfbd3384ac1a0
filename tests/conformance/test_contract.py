"""What every container has to do, as `servable conformance` checks it anywhere."""

import pytest

from servable.conformance.contract import CHECKS
from servable.conformance.targets import ContainerTarget
from tests.conformance.asking import Endpoint

pytestmark = pytest.mark.long

# "within 250 ms" and "within 2 s" are for a container of its own, and not for a busy computer.
UNTIMED = [sentence for sentence in CHECKS if "within" not in sentence]


@pytest.mark.parametrize("sentence", UNTIMED)
def test_without_code_the_contract_holds(sentence: str, plain: Endpoint) -> None:
    assert CHECKS[sentence](ContainerTarget(plain.url)) is None


@pytest.mark.parametrize("sentence", UNTIMED)
def test_with_code_the_contract_holds(sentence: str, coded: Endpoint) -> None:
    assert CHECKS[sentence](ContainerTarget(coded.url)) is None
