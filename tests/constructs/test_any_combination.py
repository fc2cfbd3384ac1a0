"""Any combination of capabilities that the rules accept is synthesised, to calls that AWS takes.

Its alarms, dashboard and scaling look at metrics that somebody publishes."""

from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, assume, given, settings

from infra.parameters.loading import Loaded, load
from infra.preflight.check import check, select_errors
from tests.api_calls import calls, problems
from tests.capabilities import environments
from tests.conftest import valid
from tests.constructs.conftest import Synthesised
from tests.constructs.test_published_metrics import looks_at_what_is_published
from tests.presets import synthesised

UNHURRIED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]


def loaded(project: Path, values: dict[str, Any]) -> Loaded:
    (project / "environments" / "dev.toml").write_text(tomlkit.dumps(values), encoding="utf-8")
    (found,) = load(project, project / "environments")
    return found


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(max_examples=20, deadline=None, suppress_health_check=UNHURRIED)
@given(environments())
def test_what_the_rules_accept_is_synthesised(project: Path, values: dict[str, Any]) -> None:
    found = loaded(project, values)
    assume(select_errors(check(found)) == [])
    stacks = synthesised(valid(found))
    asked = [call for one in stacks.values() for call in calls(one)]
    assert [said for call in asked for said in problems(call)] == []
    kind = valid(found).environment.kind.name
    looks_at_what_is_published(Synthesised(stacks["endpoint"]), kind)
