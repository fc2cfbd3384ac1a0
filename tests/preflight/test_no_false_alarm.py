"""500 environments that somebody could mean pass, and the container takes their variables."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from infra.parameters.loading import load
from infra.parameters.placement import list_placements
from infra.preflight.check import check
from tests.conftest import valid
from tests.policy.container_oracle import start
from tests.preflight.valid_environments import as_toml, environments

pytestmark = pytest.mark.long


@settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=environments())
def test_what_is_valid_passes_and_starts(project: Path, values: dict[str, Any]) -> None:
    (project / "environments" / "dev.toml").write_text(as_toml(values), encoding="utf-8")
    (loaded,) = load(project, project / "environments")
    assert [str(finding) for finding in check(loaded)] == []
    environment = valid(loaded).environment
    for placement in list_placements(environment):
        found, machine = placement.build_hosting(environment.region), placement.instance
        started = start(
            found.variables,
            vcpus=machine.vcpus,
            gpus=machine.gpus,
            has_code=placement.model.code is not None,
        )
        assert len(started.model_servers) == (placement.settings.tfs_processes or 1)
        assert len(found.variables) <= 100
