"""Environments with our wheels and what they require, and nothing else."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from servable.console.extras import COMMANDS
from servable_local.container.launch import launch
from tests.conftest import RANKER, VALID
from tests.servable_handler.endpoints import packed
from tests.wheels.environment import make

pytestmark = pytest.mark.long
# Somebody's CDK app with two of our constructs, beside packages of names that ours once had.
APP = """\
from pathlib import Path
import aws_cdk as cdk
from aws_cdk import aws_sns as sns
from servable.constructs import Alarms, Endpoint, EndpointAlarms, EndpointDashboard, WatchedVariant
from stacks.names import STACK
import local, serving

app = cdk.App()
stack = cdk.Stack(app, STACK)
variant = WatchedVariant(name="AllTraffic", instance_type="ml.c5.xlarge", max_instances=4)
watched = Endpoint.from_endpoint_attributes(
    stack, "Search", endpoint_name="search", variants=[variant]
)
topic = sns.Topic(stack, "Topic", enforce_ssl=True)
asked = Alarms(p99_latency_ms=80)
alarms = EndpointAlarms(stack, "Alarms", endpoint=watched, alarms=asked, inform=topic)
EndpointDashboard(stack, "Dashboard", endpoint=watched, alarms=alarms)
app.synth()
"""
PREDICTS = """\
import importlib.util, json, sys
import numpy as np
from servable_client import Endpoint
ours = ("infra", "model_packaging", "servable", "servable_local", "stacks")
with Endpoint.local(sys.argv[1]) as ranker:
    ids, values = np.zeros((3, 39), np.int64), np.zeros((3, 39), np.float32)
    shape = ranker.predict(feat_ids=ids, feat_vals=values).only.shape
print(json.dumps([list(shape), [one for one in ours if importlib.util.find_spec(one)]]))
"""


def run(folder: Path, *command: str | Path, **variables: str) -> str:
    """What it prints. Of the environment variables only HOME, whose cache jsii unpacks itself into."""
    ran = subprocess.run(
        command,
        cwd=folder,
        env={"HOME": os.environ.get("HOME", str(folder)), "PATH": os.defpath, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def package(folder: Path, name: str, **modules: str) -> None:
    (folder / name).mkdir()
    for module, text in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(text)


def kinds(template: Path) -> Counter[str]:
    resources: dict[str, Any] = json.loads(template.read_text())["Resources"]
    return Counter(resource["Type"] for resource in resources.values())


@pytest.fixture(scope="module")
def synth(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """The programs of an environment with servable-endpoints[synth]."""
    return make(tmp_path_factory.mktemp("synth"), wheels, ["servable-endpoints[synth]"])


@pytest.mark.parametrize("extra", sorted({extra for extra, _ in COMMANDS.values()} - {"local"}))
def test_an_extra_brings_all_that_its_commands_import(
    wheels: Path, tmp_path: Path, extra: str, request: pytest.FixtureRequest
) -> None:
    if extra == "synth":
        programs: Path = request.getfixturevalue("synth")
    else:
        programs = make(tmp_path / "environment", wheels, [f"servable-endpoints[{extra}]"])
    modules = [
        f"servable.{command}.command"
        for command, (needed, _) in COMMANDS.items()
        if needed == extra
    ]
    run(tmp_path, programs / "python", "-c", f"import {', '.join(modules)}")


def test_an_app_with_packages_of_its_own_takes_our_constructs(synth: Path, tmp_path: Path) -> None:
    package(tmp_path, "stacks", names='STACK = "search-watch"\n')
    package(tmp_path, "local")
    package(tmp_path, "serving")
    (tmp_path / "app.py").write_text(APP)
    path = f"{synth}:{os.defpath}"
    run(tmp_path, synth / "python", "app.py", CDK_OUTDIR="out", PATH=path, CDK_VALIDATION="false")
    assert kinds(tmp_path / "out" / "search-watch.template.json") == {
        "AWS::CloudWatch::Alarm": 6,
        "AWS::CloudWatch::CompositeAlarm": 1,
        "AWS::CloudWatch::Dashboard": 1,
        "AWS::SNS::Topic": 1,
        "AWS::SNS::TopicPolicy": 1,
    }


def test_a_project_is_synthesised_beside_packages_of_our_names(synth: Path, tmp_path: Path) -> None:
    package(tmp_path, "stacks")
    package(tmp_path, "infra")
    (tmp_path / "environments").mkdir()
    (tmp_path / "model").symlink_to(RANKER)
    (tmp_path / "environments" / "prod.toml").write_text(VALID)
    run(tmp_path, synth / "servable-app", CDK_OUTDIR=str(tmp_path / "out"))
    (template,) = (tmp_path / "out" / "assembly-prod").glob("*endpoint*.template.json")
    assert kinds(template)["AWS::SageMaker::Endpoint"] == 1


def test_the_client_alone_predicts_and_brings_only_what_it_requires(
    wheels: Path, tmp_path: Path
) -> None:
    client = make(tmp_path / "client", wheels, ["servable-client"])
    archive = packed(tmp_path / "model.tar.gz", {"ranker": RANKER})
    with launch(archive, {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}) as container:
        said = run(tmp_path, client / "python", "-c", PREDICTS, container.url)
    assert json.loads(said) == [[3], []]
    installed = client.parent.glob("lib/python3*/site-packages/*.dist-info")
    assert sorted(one.name.split("-")[0] for one in installed) == [
        "boto3",
        "botocore",
        "jmespath",
        "numpy",
        "protobuf",
        "python_dateutil",
        "s3transfer",
        "servable_client",
        "servable_runtime",
        "six",
        "urllib3",
    ]
