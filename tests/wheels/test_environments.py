"""Environments with our wheels and what they require, also beside packages of the same names."""

import json
import os
import re
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from servable.console.extras import COMMANDS
from servable_local.container.launch import launch
from tests.checkouts import ROOT, run_in, succeed_in
from tests.conftest import RANKER, VALID
from tests.servable_handler.endpoints import packed
from tests.wheels.conftest import file_of, metadata
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

BROUGHT = (
    "boto3 botocore jmespath numpy protobuf python_dateutil s3transfer servable_client "
    "servable_runtime six urllib3"
)
# What the client never imports; and on first use, so that its own import doesn't wait.
NOT_IMPORTED = "grpc gevent aws_cdk jsii tensorflow falcon infra servable_local servable_scaling"
ON_FIRST_USE = {"boto3", "botocore", "google.protobuf", "asyncio", "urllib3"}


def run(folder: Path, *command: str | Path, **variables: str) -> str:
    """What it prints. Of the environment variables only HOME, whose cache jsii unpacks itself into."""
    kept = {"HOME": os.environ.get("HOME", str(folder)), "PATH": os.defpath}
    return succeed_in(folder, *command, environment=kept | variables, timeout_seconds=300).stdout


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
    commands = [command for command, (needed, _) in COMMANDS.items() if needed == extra]
    modules = ", ".join(f"servable.{command}.command" for command in commands)
    run(tmp_path, programs / "python", "-c", f"import {modules}")


def test_an_app_with_packages_of_its_own_takes_our_constructs(synth: Path, tmp_path: Path) -> None:
    package(tmp_path, "stacks", names='STACK = "search-watch"\n')
    for name in ("local", "serving"):
        package(tmp_path, name)
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
    for name in ("stacks", "infra"):
        package(tmp_path, name)
    (tmp_path / "environments").mkdir()
    (tmp_path / "model").symlink_to(RANKER)
    (tmp_path / "environments" / "prod.toml").write_text(VALID)
    run(tmp_path, synth / "servable-app", CDK_OUTDIR=str(tmp_path / "out"))
    (template,) = (tmp_path / "out" / "assembly-prod").glob("*endpoint*.template.json")
    assert kinds(template)["AWS::SageMaker::Endpoint"] == 1


def test_the_client_brings_only_what_it_requires(wheels: Path, tmp_path: Path) -> None:
    client = make(tmp_path / "client", wheels, ["servable-client"])
    archive = packed(tmp_path / "model.tar.gz", {"ranker": RANKER})
    with launch(archive, {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}) as container:
        said = run(tmp_path, client / "python", "-c", PREDICTS, container.url)
    assert json.loads(said) == [[3], []]
    installed = client.parent.glob("lib/python3*/site-packages/*.dist-info")
    assert sorted(one.name.split("-")[0] for one in installed) == BROUGHT.split()


def test_the_client_imports_nothing_heavy(wheels: Path, tmp_path: Path) -> None:
    for name in ("servable-runtime", "servable-client"):
        with zipfile.ZipFile(file_of(name, wheels)) as archive:
            archive.extractall(tmp_path)

    def list_imported(code: str) -> set[str]:
        """What Python has imported after the code, with the folder first on its path."""
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}; print(*sys.modules)"
        return {*succeed_in(tmp_path, sys.executable, "-I", "-c", code).stdout.split()}

    heavy = {*NOT_IMPORTED.split()}
    assert list_imported("import servable_client") & (heavy | ON_FIRST_USE) == set()
    code = (
        "from servable_client import FakeEndpoint, Endpoint; import servable_client.sagemaker_runtime; "
        "f = FakeEndpoint(lambda x: {'y': x}); [f.predict(x=[1.0], format=one) for one in "
        "('protobuf', 'npz', 'json')]; f.predict([1.0])"
    )
    assert list_imported(code) & heavy == set()

    needs = [re.split("[>=]", one)[0] for one in metadata("servable-client")["dependencies"]]
    assert needs == ["servable-runtime", "boto3", "numpy"]


@pytest.mark.parametrize("name", ["servable-client", "servable-runtime", "servable-scaling"])
def test_a_package_alone_runs_its_readme(name: str, wheels: Path, tmp_path: Path) -> None:
    page = (ROOT / "packages" / name / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    expected = re.findall(r"^print\(.*\) +# (.*)$", code, re.MULTILINE)
    more = ["numpy"] if name == "servable-runtime" else []  # what its example needs besides
    programs = make(tmp_path / "environment", wheels, [name, *more])
    assert run(tmp_path, programs / "python", "-c", code).splitlines() == expected != []


def run_beside(folder: Path, *words: str) -> tuple[int, str]:
    """Run Python with `folder`, then the project, on its path; return its code and errors."""
    path = {"PYTHONPATH": f"{folder}:{ROOT}"}
    ran = run_in(folder, sys.executable, *words, environment=path)
    return ran.returncode, ran.stderr


def test_an_app_and_every_command_are_told_of_an_infra_of_their_own(tmp_path: Path) -> None:
    package(tmp_path, "infra")
    sentence = (
        f"{tmp_path / 'infra'}: this package hides the package 'infra' of Servable in {ROOT}; rename yours, "
        "for example to my_infra, or start Python with -P and without PYTHONPATH"
    )
    _, said = run_beside(tmp_path, "-c", "import servable.constructs")
    error = "servable.console.hidden.HiddenPackageError"
    assert said.splitlines()[-1] == f"{error}: {sentence}"
    for words in (("servable", "check"), ("servable.app",)):
        assert run_beside(tmp_path, "-m", *words) == (2, f"{sentence}\n")
    (tmp_path / "infra").rename(tmp_path / "my_infra")
    assert run_beside(tmp_path, "-m", "servable", "--help")[0] == 0
    (tmp_path / "stacks.py").write_text("")
    _, said = run_beside(tmp_path, "-m", "servable.app")
    assert said.startswith(f"{tmp_path / 'stacks.py'}: this package hides")


def test_a_folder_that_is_no_package_and_other_names_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    for name in ("local", "serving", "constructs_of_mine"):
        package(tmp_path, name)
    assert run_beside(tmp_path, "-m", "servable", "--help")[0] == 0
