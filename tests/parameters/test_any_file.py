"""Whatever stands in a file, what comes back is findings, never an exception."""

import copy
import tomllib
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings

from infra.parameters.loading import load
from infra.preflight.check import check
from tests.conftest import VALID

pytestmark = pytest.mark.long

WHOLE = tomllib.loads(
    VALID
    + """
max_instances = 2
container = { tfs_processes = 2, batching = { max_batch_size = 4 } }
environment = { SAGEMAKER_GUNICORN_WORKERS = "2", SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS = "5", OWN = "1" }
scaling = { max_rps_per_instance = 10, safety_factor = 0.5 }
[alarms]
p99_latency_ms = 100
notify = ["a@example.com"]
[rollout]
strategy = "canary"
[acknowledge]
instance-retired = "moves next quarter"
[tags]
team = "ranking"
"""
)


def paths(table: dict[str, Any], at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = [
        path
        for key, one in table.items()
        if isinstance(one, dict)
        for path in paths(one, (*at, key))
    ]
    return [(*at, key) for key in table] + inner


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=300),
    st.dates(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab-", min_size=1), inner, max_size=3)
    ),
    max_leaves=4,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None
)
@given(changes=st.lists(st.tuples(st.sampled_from(paths(WHOLE)), VALUES), min_size=1, max_size=3))
def test_no_value_at_any_key_is_an_exception(
    project: Path, changes: list[tuple[tuple[str, ...], Any]]
) -> None:
    values = copy.deepcopy(WHOLE)
    for path, value in changes:
        table: Any = values
        for name in path[:-1]:
            table = table.get(name) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table[path[-1]] = value
    (project / "environments" / "prod.toml").write_text(tomlkit.dumps(values), encoding="utf-8")
    (loaded,) = load(project, project / "environments")
    for finding in check(loaded):
        assert str(finding).startswith("environments/prod.toml: ")
        assert finding.remedy
        finding.as_json()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=70, deadline=None
)
@given(key=st.sampled_from([".".join(path) for path in paths(WHOLE)]), text=st.text(max_size=60))
def test_no_override_is_an_exception(project: Path, key: str, text: str) -> None:
    (project / "environments" / "prod.toml").write_text(tomlkit.dumps(WHOLE), encoding="utf-8")
    (loaded,) = load(project, project / "environments", {"prod": {key: text}})
    assert all(str(finding) for finding in check(loaded))
