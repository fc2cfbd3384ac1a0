"""The faults of public threads are found as docs/reference/beyond-linters.md says."""

from pathlib import Path
from typing import Any

import pytest

from infra.preflight.check import check
from tests.preflight.beyond_linters_public import FAULTS, reproduced


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["id"])
def test_a_public_fault_is_found_as_its_row_says(fault: dict[str, Any], tmp_path: Path) -> None:
    rules = {finding.rule for finding in check(reproduced(fault, tmp_path / "project"))}
    assert fault["rule"] in rules if fault["rule"] else rules == set()


def test_at_least_sixty_faults_of_public_threads_are_shown() -> None:
    assert len({(fault["address"], fault["fault"]) for fault in FAULTS}) >= 60
