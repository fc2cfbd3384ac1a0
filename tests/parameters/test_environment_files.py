"""A file becomes a frozen environment; a base is changed key by key; what cannot be is a finding."""

import copy
import functools
import json
import re
import tomllib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pydantic
import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings

from infra.parameters.environment import Environment
from infra.parameters.keys import read_meaning
from infra.parameters.loading import ValidFile, load
from infra.parameters.overrides import parse_value
from infra.parameters.reference import _find_tables, build_json_schema, render_markdown
from infra.parameters.sources import list_environment_names
from infra.policy.container import KEYLESS, SETTINGS
from infra.preflight.check import check
from tests.checkouts import ROOT
from tests.conftest import VALID, valid
from tests.preflight.overlay import overlaid


def written(project: Path, **files: str) -> dict[str, Environment]:
    folder = project / "environments"
    for name, text in files.items():
        (folder / f"{name.replace('_', '-')}.toml").write_text(text)
    found = {loaded.name: loaded for loaded in load(project, folder)}
    return {name: valid(file).environment for name, file in found.items()}


def test_a_file_wins_over_its_bases_key_by_key_and_lists_do_not_merge(project: Path) -> None:
    prod = 'extends = "base"\nregion = "us-east-1"\n'
    assert written(project, base=VALID, prod=prod)["prod"].region == "us-east-1"

    prod = 'extends = "base"\n[variants.primary]\nmin_instances = 3\n'
    variant = written(project, base=VALID, prod=prod)["prod"].variants["primary"]
    assert (variant.min_instances, variant.instance_type) == (3, "ml.c5.xlarge")

    base = VALID + '[alarms]\nnotify = ["a@example.com"]\n'
    prod = 'extends = "base"\n[alarms]\nnotify = ["b@example.com"]\n'
    assert written(project, base=base, prod=prod)["prod"].alarms.notify == ["b@example.com"]

    middle = 'extends = "base"\nregion = "us-east-1"\n'
    found = written(project, base=VALID, secure_base=middle, prod='extends = "secure-base"\n')
    assert found["prod"].region == "us-east-1"
    environment = written(project, prod=VALID)["prod"]
    with pytest.raises(pydantic.ValidationError):
        environment.region = "us-east-1"


def test_a_base_is_no_environment(project: Path) -> None:
    for name in ("base", "secure-base", "prod"):
        (project / "environments" / f"{name}.toml").write_text("")
    assert list_environment_names(project / "environments") == ["prod"]


def test_every_default_has_a_meaning() -> None:
    missing = [
        f"{table.__name__}.{name}"
        for table in tables(Environment)
        for name in table.model_fields
        if not read_meaning(table, name)
    ]
    assert missing == []
    schema = json.loads(build_json_schema())["$defs"]["Variant"]["properties"]
    assert {*schema["environment"]["properties"]} == {*SETTINGS, *KEYLESS}
    assert "properties" not in schema["min_instances"]
    lines = render_markdown().splitlines()
    for head, below in pairwise(lines):
        assert not below.startswith("|---") or head.count("|") == below.count("|")


def test_every_key_is_read_by_what_deploys() -> None:
    folders = ("infra/constructs", "infra/parameters", "infra/policy", "stacks")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    code = "".join(re.sub(r'"{3}.*?"{3}', "", file.read_text(), flags=re.DOTALL) for file in files)
    words = Counter(re.findall(r"\w+", code))
    written = Counter(
        name
        for table in set(tables(Environment))
        if table.__module__ != "infra.parameters.replay"
        for name in table.model_fields
    )
    # Each once, where it is defined, and those that only `servable check` reads.
    shown = {name for name, times in written.items() if words[name] <= times}
    assert shown == {"caller_timeout_ms", "content_types", "require", "tolerance"}


def tables(table: type[pydantic.BaseModel]) -> list[type[pydantic.BaseModel]]:
    return [table, *(inner for _, inner in _find_tables(table, ""))]


def test_the_files_of_this_repository_have_no_finding() -> None:
    assert [loaded.findings for loaded in load(ROOT, ROOT / "environments")] == [(), (), (), ()]


@pytest.mark.parametrize(("more", "is_valid"), [("", True), ("[unknown]\n", False)])
def test_a_file_is_valid_if_all_its_keys_are(project: Path, more: str, *, is_valid: bool) -> None:
    (project / "environments" / "prod.toml").write_text(VALID + more)
    (loaded,) = load(project, project / "environments")
    assert isinstance(loaded, ValidFile) is is_valid


LINES = """\
models.ranker.warm_up = ["golden/rows.json"]
models.ranker.golden = { request = "golden/rows.json", answer = "/elsewhere/answer.json" }
traffic.day = "day.csv"
"""


def test_a_path_is_the_projects_wherever_it_is_read_and_recorded_as_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    environment = valid(overlaid(project, LINES)).environment
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


in_one_project = functools.partial(
    settings, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
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


@pytest.mark.long
@in_one_project(max_examples=100)
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


@pytest.mark.long
@in_one_project(max_examples=70)
@given(key=st.sampled_from([".".join(path) for path in paths(WHOLE)]), text=st.text(max_size=60))
def test_no_override_is_an_exception(project: Path, key: str, text: str) -> None:
    (project / "environments" / "prod.toml").write_text(tomlkit.dumps(WHOLE), encoding="utf-8")
    (loaded,) = load(project, project / "environments", {"prod": {key: text}})
    assert all(str(finding) for finding in check(loaded))
