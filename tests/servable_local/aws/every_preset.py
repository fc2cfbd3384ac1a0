"""Every preset's life against the policies of the execution role: `make every-preset`.

The name is no test's, so that only who names the file runs it: it takes minutes.
"""

import pytest

from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from tests.presets import environments
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.test_execution_policy import calls_outside


@pytest.mark.parametrize("name", sorted(environments()))
def test_no_call_lies_outside(
    name: str,
    embedded: LocalAws,
    launcher: Launcher,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert calls_outside(name, embedded, launcher, clock, monkeypatch) == []
