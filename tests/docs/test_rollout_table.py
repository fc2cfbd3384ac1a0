"""The table of docs/updating.md says of each cell what `plan` says beforehand."""

import pytest

from infra.parameters.rollout import FAULTS
from tests.checkouts import ROOT
from tests.servable_local.aws.synthesised import STRATEGIES, predicted, row

PAGE = (ROOT / "docs" / "updating.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_row_is_what_plan_says(strategy: str) -> None:
    assert (
        row(strategy, {fault: predicted(strategy, fault) for fault in FAULTS}) in PAGE.splitlines()
    )
