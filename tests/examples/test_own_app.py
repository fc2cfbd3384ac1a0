"""examples/own_app in a local AWS: it updates what its earlier version deployed, answers, and shows changes.

own_app_before.template.json is what `python examples/own_app/app.py` synthesized at revision c0387041, on
the constructs before `Endpoint` and `Model`. The names of archives are those of this tree, because a
different handler in an archive replaces a model rightly.
"""

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import LocalAws, running
from tests.checkouts import GOLDEN, PATH, ROOT, Ran, assert_predicts, bootstrapped, succeed_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

BEFORE = Path(__file__).with_name("own_app_before.template.json")
ARCHIVE = re.compile(r"[0-9a-f]{64}\.tar\.gz")
POLICY = re.compile(r"(?<=ScoresModelRolePolicy)[0-9a-f]{8}[0-9A-F]{8}")
NAMES = ("search-ranking", "search-scores")


@dataclass(frozen=True)
class Example:
    """The example in a folder of its own, and the local AWS that it is deployed to."""

    project: Path
    aws: LocalAws
    found: list[tuple[dict[str, str], list[Any]]] = field(default_factory=list)
    """Resources and endpoints after the earlier version's deployment, and after this one's."""

    @property
    def environment(self) -> dict[str, str]:
        return self.aws.environment_over({**os.environ, "PATH": PATH, "PYTHONPATH": str(ROOT)})

    def cdk(self, *arguments: str, app: str = f"{sys.executable} examples/own_app/app.py") -> Ran:
        # The stored template has no record of CDK's version, which the CLI asks for.
        command = ("cdk", *arguments, "search", "--app", app, "--no-version-reporting")
        return succeed_in(self.project, *command, environment=self.environment, timeout_seconds=500)

    def look(self) -> None:
        stack = self.aws.client("cloudformation").describe_stack_resources(StackName="search")
        resources = {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in stack["StackResources"]
        }
        client = self.aws.client("sagemaker")
        endpoints = [client.describe_endpoint(EndpointName=name) for name in NAMES]
        self.found.append((resources, endpoints))


def with_template(assembly: Path, before: str) -> None:
    """Replace the template of a cloud assembly, under a different name in the bucket of assets."""
    template = assembly / "search.template.json"
    now = template.read_text()
    (archive,), (old,) = (
        set(ARCHIVE.findall(json.dumps(json.loads(text)["Resources"]["ScoresModelD9C9ED67"])))
        for text in (now, before)
    )
    (policy,) = set(POLICY.findall(now))
    template.write_text(POLICY.sub(policy, before.replace(old, archive)))
    files = json.loads((assembly / "search.assets.json").read_text())["files"]
    (key,) = [key for key, each in files.items() if each["source"].get("path") == template.name]
    for file in ("search.assets.json", "manifest.json"):
        place = assembly / file
        place.write_text(place.read_text().replace(key, "0" * 64))


def copy_example(project: Path) -> Path:
    for folder in ("ranker/model", "ranker/code", "ranker/golden", "own_app"):
        target = project / "examples" / folder
        shutil.copytree(ROOT / "examples" / folder, target, ignore=shutil.ignore_patterns("__py*"))
    return project


def run_app(name: str, folder: Path, out: Path) -> None:
    quick = {"PYTHONPATH": str(ROOT), "CDK_VALIDATION": "false", "CDK_OUTDIR": str(out)}
    app = (sys.executable, f"examples/own_app/{name}")
    succeed_in(folder, *app, environment=os.environ | quick, timeout_seconds=300)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    project = copy_example(tmp_path_factory.mktemp("search"))
    with running() as aws:
        bootstrapped(aws)
        own = Example(project, aws)
        own.cdk("synth", "--quiet", "--output", "before")
        with_template(project / "before", BEFORE.read_text())
        own.cdk("deploy", "--require-approval", "never", app="before")
        own.look()
        own.cdk("deploy", "--require-approval", "never")
        own.look()
        yield own


def test_the_example_on_the_new_constructs_replaces_nothing(deployed: Example) -> None:
    (before, old), (after, new) = deployed.found
    assert after == before
    for key in ("EndpointConfigName", "CreationTime"):
        assert [each[key] for each in new] == [each[key] for each in old]


def test_both_endpoints_and_the_function_answer_the_golden_request(deployed: Example) -> None:
    for name in NAMES:
        assert_predicts(deployed.aws, name)
    (function,) = deployed.aws.client("lambda").list_functions()["Functions"]
    body = (GOLDEN / "request-rows.json").read_text()
    code = f"import ask; print(ask.handler({body}, None)['predictions'])"
    # Bytecode beside the function would be another asset to `cdk diff`.
    variables = function["Environment"]["Variables"] | {"PYTHONDONTWRITEBYTECODE": "1"}
    ran = succeed_in(
        deployed.project / "examples" / "own_app" / "function", sys.executable, "-c", code,
        environment=deployed.environment | variables,
    )  # fmt: skip
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
    assert json.loads(ran.stdout) == pytest.approx(wanted, rel=1e-5)


def test_one_of_two_endpoints_scales_and_is_rolled_back_by_alarms(tmp_path: Path) -> None:
    run_app("app.py", copy_example(tmp_path), tmp_path / "cdk.out")
    template = json.loads((tmp_path / "cdk.out/search.template.json").read_text())["Resources"]
    kinds = Counter(one["Type"] for one in template.values())
    wanted = {
        "AWS::SageMaker::Model": 2,
        "AWS::ApplicationAutoScaling::ScalableTarget": 1,
        "AWS::ApplicationAutoScaling::ScalingPolicy": 1,
        "AWS::CloudWatch::CompositeAlarm": 1,
        "AWS::IAM::Role": 3,
    }
    assert {kind: kinds[kind] for kind in wanted} == wanted
    # The scaled one begins with one instance.
    counts = [
        variant["InitialInstanceCount"]
        for resource in template.values()
        for variant in resource["Properties"].get("ProductionVariants", [])
    ]
    assert sorted(counts) == [1, 2]
    (guarded,) = [one for one in template.values() if "DeploymentConfig" in one["Properties"]]
    rollback = guarded["Properties"]["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    alarms = {
        name
        for name, one in template.items()
        if one["Type"] == "AWS::CloudWatch::Alarm" and name.startswith("RankingRollout")
    }
    assert {alarm["AlarmName"]["Ref"] for alarm in rollback} == alarms


def test_cdk_diff_after_one_change_shows_that_change(deployed: Example) -> None:
    app = deployed.project / "examples" / "own_app" / "app.py"
    written = app.read_text()
    three = written.replace('"ml.m5.large", min_instances=2)', '"ml.m5.large", min_instances=3)')
    app.write_text(three)
    try:
        ran = deployed.cdk("diff", "--no-color", "--method", "template", "--output", "cdk.changed")
    finally:
        app.write_text(written)
    changed = [
        line.split("]", 1)[1].strip()
        for line in (ran.stdout + ran.stderr).splitlines()
        if "[-]" in line or "[+]" in line
    ]
    assert changed == ['"InitialInstanceCount": 2,', '"InitialInstanceCount": 3,']


def test_watch_makes_alarms_a_composite_and_a_dashboard(tmp_path: Path) -> None:
    run_app("watch.py", ROOT, tmp_path)
    template = json.loads((tmp_path / "search-watch.template.json").read_text())["Resources"]
    assert Counter(one["Type"] for one in template.values()) == {
        "AWS::CloudWatch::Alarm": 6,
        "AWS::CloudWatch::CompositeAlarm": 1,
        "AWS::CloudWatch::Dashboard": 1,
        "AWS::SNS::Topic": 1,
        "AWS::SNS::TopicPolicy": 1,
    }
