"""Paths of an environment file: absolute where they are read, as written where they are shown."""

import copy
from pathlib import Path

import pytest

from infra.parameters.environment import Environment
from infra.parameters.overrides import parse_value
from tests.conftest import valid
from tests.preflight.overlay import overlaid

LINES = """\
models.ranker.warm_up = ["golden/rows.json"]
models.ranker.golden = { request = "golden/rows.json", answer = "/elsewhere/answer.json" }
traffic.day = "day.csv"
"""


@pytest.fixture
def environment(project: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.chdir("/")
    return valid(overlaid(project, LINES)).environment


def test_a_path_is_the_projects_wherever_it_is_read_and_recorded_as_written(
    project: Path, environment: Environment
) -> None:
    paths = [environment.models["ranker"].warm_up[0], environment.traffic.day]
    found = [path.path for path in paths if path]
    assert found == [project / "golden/rows.json", project / "day.csv"]

    golden = environment.models["ranker"].golden
    assert golden
    assert golden.answer
    assert golden.answer.path == Path("/elsewhere/answer.json")

    recorded = environment.model_dump(mode="json")["models"]["ranker"]["warm_up"]
    assert recorded == ["golden/rows.json"]

    day = copy.deepcopy(environment.traffic.day)
    assert day
    assert day.path == project / "day.csv"


def test_a_path_set_for_one_run_needs_no_quotes() -> None:
    assert parse_value("2026", ("traffic", "day")) == "2026"
