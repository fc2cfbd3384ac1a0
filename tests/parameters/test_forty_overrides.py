"""Forty overrides, in files, with -c and --set, and in cdk.json: each takes effect or is rejected by name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from infra.parameters.loading import Loaded, load
from infra.parameters.overrides import find_unknown_environments, from_options
from infra.preflight.check import check, select_errors
from servable.project.environments import Project
from tests.conftest import VALID, valid

BASE = (
    VALID
    + """
max_instances = 4
[variants.primary.scaling]
max_rps_per_instance = 100
[variants.primary.environment]
LOG_LEVEL = "info"
[acknowledge]
no-alarm-topic = "nobody is on call"
"model-unused:ranker" = "the other team's"
[tags]
team = "search"
"""
)
P = "variants.primary."

# (key, value, key of the environment that shows the effect, its value)
EFFECTIVE = [
    ("-c", "prod.region", "us-east-1", "region", "us-east-1"),
    ("-c", "prod.account", "012345678901", "account", "012345678901"),
    ("-c", f"prod.{P}max_instances", "9", P + "max_instances", 9),
    ("-c", 'prod."variants".primary."max_instances"', "9", P + "max_instances", 9),
    ("-c", f"prod.{P}container.batching", "{ max_batch_size = 4 }",
     P + "container.batching.max_batch_size", 4),
    ("-c", f"prod.{P}environment.SAGEMAKER_TFS_INSTANCE_COUNT", "2",
     P + "container.tfs_processes", 2),
    ("-c", f"prod.{P}environment.LOG_LEVEL", "", P + "environment.LOG_LEVEL", ""),
    ("-c", f"prod.{P}scaling", "", P + "scaling", None),
    ("-c", "prod.tags.acme:owner", "me", "tags", {"team": "search", "acme:owner": "me"}),
    ("-c", "prod.tags.acme.com/owner", "me", "tags", {"team": "search", "acme.com/owner": "me"}),
    ("-c", 'prod.tags."acme.com/owner"', "a=b", "tags",
     {"team": "search", "acme.com/owner": "a=b"}),
    ("-c", "prod.tags.cost", "5", "tags", {"team": "search", "cost": "5"}),
    ("-c", "prod.acknowledge.no-alarm-topic", "", "acknowledge",
     {"model-unused:ranker": "the other team's"}),
    ("-c", "prod.acknowledge.model-unused:ranker", "", "acknowledge",
     {"no-alarm-topic": "nobody is on call"}),
    ("-c", "prod.acknowledge", "", "acknowledge", {}),
    ("--set", f"{P}max_instances", "9", P + "max_instances", 9),
    ("--set", f"prod.{P}max_instances", "9", P + "max_instances", 9),
    ("--set", "prices.instance_usd_per_hour.ml.c5.xlarge", "0.2",
     "prices.instance_usd_per_hour", {"ml.c5.xlarge": 0.2}),
    ("--set", "tags.acme:owner", "me", "tags", {"team": "search", "acme:owner": "me"}),
    ("--set", "tags.'a.b'", "'c'", "tags", {"team": "search", "a.b": "c"}),
    ("--set", "acknowledge.model-unused:ranker", "", "acknowledge",
     {"no-alarm-topic": "nobody is on call"}),
    ("cdk.json", f"prod.{P}max_instances", 15, P + "max_instances", 15),
    ("cdk.json", f"prod.{P}max_instances", "15", P + "max_instances", 15),
    ("cdk.json", f"prod.{P}scaling.max_rps_per_instance", 12.5,
     P + "scaling.max_rps_per_instance", 12.5),
    ("cdk.json", "prod.production", True, "production", True),
    ("cdk.json", "prod.account", 222222222222, "account", "222222222222"),
    ("cdk.json", f"prod.{P}container.batching", {"max_batch_size": 4},
     P + "container.batching.max_batch_size", 4),
    ("cdk.json", "prod.alarms.notify", ["a@example.com"], "alarms.notify", ["a@example.com"]),
    ("file", f"{P}max_instances", "9", P + "max_instances", 9),
    ("file", 'tags."acme:owner"', '"me"', "tags", {"team": "search", "acme:owner": "me"}),
]  # fmt: skip

# (way, key, value, what the message begins with, what it has)
REJECTED = [
    ("-c", "prdo.region", "us-east-1", "-c prdo.region: ", "did you mean prod?"),
    ("-c", '"prod".region', "us-east-1", '-c "prod".region: ', "did you mean prod?"),
    ("-c", f"prod.{P}max_instnces", "9", f"-c prod.{P}max_instnces: ", "did you mean max_instances?"),
    ("-c", f"prod.{P}max_instnces", "", f"-c prod.{P}max_instnces: ", "did you mean max_instances?"),
    ("-c", "prod.variants.primry.max_instances", "9", "-c prod.variants.primry.max_instances: ",
     "did you mean primary?"),
    ("-c", 'prod.tags."a', 'b"=c', '-c prod.tags."a: ', "a quote isn't closed"),
    ("-c", "prod.tags..owner", "me", "-c prod.tags..owner: ", ""),
    ("-c", "prod.acknowledge.no-alarm-topc", "", "-c prod.acknowledge.no-alarm-topc: ",
     "did you mean no-alarm-topic?"),
    ("-c", "prod.extends", "base", "-c prod.extends: ", ""),
    ("-c", "prod.", "5", "-c prod.: ", "a part is empty"),
    ("-c", "prod.region.x", "1", "-c prod.region.x: ", ""),
    ("-c", f"prod.{P}scaling", '{ max_rps_per_instance = "x" }', f"-c prod.{P}scaling: ", "'x' is not"),
    ("--set", f"{P}max_instances", "many", f"--set prod.{P}max_instances: ", "'many' is not"),
    ("--set", "tag.acme:owner", "me", "--set prod.tag.acme:owner: ", "unknown key 'tag'"),
    ("cdk.json", f"prod.{P}max_instances", [3], f"prod.{P}max_instances: ", "[3] is not"),
    ("cdk.json", f"prod.{P}max_instances", 2.5, f"prod.{P}max_instances: ", "2.5 is not"),
    ("file", f"{P}max_instnces", "9", "environments/prod.toml:", "did you mean max_instances?"),
]  # fmt: skip


@pytest.fixture
def files(project: Path) -> Path:
    folder = project / "environments"
    (folder / "base.toml").write_text(BASE)
    (folder / "prod.toml").write_text('extends = "base"\n')
    return folder


def load_over(files: Path, way: str, key: str, given: Any) -> list[list[Loaded] | str]:
    """Return what each command that reads this way loads, or the sentence with which it stops."""
    root = files.parent
    if way == "file":
        (files / "prod.toml").write_text(f'extends = "base"\n{key} = {given}\n')
        return [load(root, files)]
    if way == "--set":
        return [Project(str(files), (f"{key}={given}",)).load_all("prod")]
    overrides = from_options({key: given})
    loaded = load(root, files, overrides)
    lost = find_unknown_environments(overrides, [one.name for one in loaded], "-c")
    by_synth: list[list[Loaded] | str] = ["\n".join(map(str, lost))] if lost else [loaded]
    if way == "-c":
        return by_synth
    (root / "cdk.json").write_text(json.dumps({"context": {key: given}}))
    return [*by_synth, Project(str(files)).load_all()]


def look_up(environment: Any, key: str) -> Any:
    for name in key.split("."):
        environment = environment[name] if isinstance(environment, Mapping) else getattr(
            environment, name)  # fmt: skip
    return environment


@pytest.mark.parametrize(
    ("way", "key", "given", "shows", "effect"), EFFECTIVE, ids=[f"{r[0]} {r[1]}={r[2]}" for r in EFFECTIVE]
)  # fmt: skip
def test_an_override_takes_effect(
    files: Path, way: str, key: str, given: Any, shows: str, effect: Any
) -> None:
    for loaded in load_over(files, way, key, given):
        assert not isinstance(loaded, str)
        (prod,) = loaded
        assert look_up(valid(prod).environment, shows) == effect
        assert bool(prod.overrides) == (way != "file")


@pytest.mark.parametrize(
    ("way", "key", "given", "begins", "has"), REJECTED, ids=[f"{r[0]} {r[1]}={r[2]}" for r in REJECTED]
)  # fmt: skip
def test_an_override_is_rejected_by_name(
    files: Path, way: str, key: str, given: Any, begins: str, has: str
) -> None:
    for loaded in load_over(files, way, key, given):
        if isinstance(loaded, str):
            lines = [loaded]
        else:
            lines = [str(finding) for one in loaded for finding in select_errors(check(one))]
        label = "" if way != "cdk.json" else lines[0].partition(" ")[0] + " "
        assert label in ("", "-c ", "cdk.json ")
        assert any(line.startswith(label + begins) and has in line for line in lines), lines


def test_there_are_forty_and_the_cdks_own_context_is_no_override() -> None:
    assert len(EFFECTIVE) + len(REJECTED) >= 40
    options = {"@aws-cdk/core:x.y": "1", "aws:cdk.z": "2", "environments": "a", "prod.region": "b"}
    assert from_options(options) == {"prod": {"region": "b"}}


def test_what_gives_two_values_is_rejected_whatever_the_order(files: Path) -> None:
    root = files.parent
    for pair in (
        {f"{P}scaling": "5", f"{P}scaling.hold": "true"},
        {"tags.team": "a", 'tags."team"': "b"},
        {f"{P}variables.A": "1", f"{P}environment.A": "2"},
    ):
        for ordered in (pair, dict(reversed(pair.items()))):
            (prod,) = load(root, files, {"prod": ordered})
            assert any("collides with -c prod." in str(each) for each in prod.findings)
    # A table and a key in it are not two values.
    table = {f"{P}scaling.hold": "true", f"{P}scaling": "{ max_rps_per_instance = 7 }"}
    (prod,) = load(root, files, {"prod": table})
    scaling = valid(prod).environment.variants["primary"].scaling
    assert scaling is not None
    assert (scaling.hold, scaling.max_rps_per_instance) == (True, 7)
    # Without the table there is no variant that the name could be compared with.
    (prod,) = load(root, files, {"prod": {"variants": "", "variants.a.model": "ranker"}})
    assert [*valid(prod).environment.variants] == ["a"]


def test_an_option_wins_over_cdk_json_and_both_are_recorded(files: Path) -> None:
    context = {f"prod.{P}max_instances": 15, f"prod.{P}min_instances": 2, "acme.flag": 1}
    (files.parent / "cdk.json").write_text(json.dumps({"context": context}))
    (prod,) = Project(str(files), (f"{P}max_instances=9",)).load_all("prod")
    variant = valid(prod).environment.variants["primary"]
    assert (variant.min_instances, variant.max_instances) == (2, 9)
    assert prod.overrides == {f"{P}max_instances": "9", f"{P}min_instances": "2"}


def test_set_without_an_environment_names_it_or_the_key(files: Path) -> None:
    for option in ("@a/b.region=x", "region=x", "prdo.region=x"):
        with pytest.raises(click.UsageError) as raised:
            Project(str(files), (option,)).load_all()
        assert option.partition("=")[0] in str(raised.value)
