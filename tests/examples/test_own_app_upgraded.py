"""The example over a stack that its version on the constructs before `Endpoint` and `Model` deployed.

own_app_before.template.json is what `python examples/own_app/app.py` synthesized at revision c0387041. The
names of archives are those of this tree, because a different handler in an archive replaces a model rightly.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, ROOT, Ran, bootstrapped, run_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

APP = f"{sys.executable} examples/own_app/app.py"
BEFORE = Path(__file__).with_name("own_app_before.template.json")
ARCHIVE = re.compile(r"[0-9a-f]{64}\.tar\.gz")
POLICY = re.compile(r"(?<=ScoresModelRolePolicy)[0-9a-f]{8}[0-9A-F]{8}")


def cdk(project: Path, aws: LocalAws, *arguments: str) -> Ran:
    environment = aws.environment_over({**os.environ, "PATH": PATH, "PYTHONPATH": str(ROOT)})
    # The stored template has no record of CDK's version, which the CLI asks for.
    command = ("cdk", *arguments, "--no-version-reporting")
    ran = run_in(project, *command, environment=environment, timeout_seconds=500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


def with_template(assembly: Path, now: str, before: str) -> None:
    """Replace the template of a cloud assembly, under a different name in the bucket of assets."""
    template = assembly / "search.template.json"
    scores = json.loads(now)["Resources"]["ScoresModelD9C9ED67"]
    (archive,) = set(ARCHIVE.findall(json.dumps(scores)))
    was = json.loads(before)["Resources"]["ScoresModelD9C9ED67"]
    (old,) = set(ARCHIVE.findall(json.dumps(was)))
    (policy,) = set(POLICY.findall(now))
    template.write_text(POLICY.sub(policy, before.replace(old, archive)))
    files = json.loads((assembly / "search.assets.json").read_text())["files"]
    (key,) = [key for key, each in files.items() if each["source"].get("path") == template.name]
    for file in ("search.assets.json", "manifest.json"):
        place = assembly / file
        place.write_text(place.read_text().replace(key, "0" * 64))


def resources(aws: LocalAws) -> dict[str, str]:
    """Return the logical IDs of the stack's resources with their physical IDs."""
    found = aws.client("cloudformation").describe_stack_resources(StackName="search")
    return {
        each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found["StackResources"]
    }


def test_the_example_on_the_new_constructs_replaces_nothing(tmp_path: Path) -> None:
    for folder in ("ranker/model", "ranker/code", "ranker/golden", "own_app"):
        target = tmp_path / "examples" / folder
        shutil.copytree(ROOT / "examples" / folder, target, ignore=shutil.ignore_patterns("__py*"))
    with running() as aws:
        bootstrapped(aws)
        cdk(tmp_path, aws, "synth", "--quiet", "--app", APP, "--output", "before")
        assembly = tmp_path / "before"
        with_template(assembly, (assembly / "search.template.json").read_text(), BEFORE.read_text())
        cdk(tmp_path, aws, "deploy", "search", "--app", "before", "--require-approval", "never")
        before = resources(aws)
        client = aws.client("sagemaker")
        old = [
            client.describe_endpoint(EndpointName=name)
            for name in ("search-ranking", "search-scores")
        ]

        cdk(tmp_path, aws, "deploy", "search", "--app", APP, "--require-approval", "never")
        assert resources(aws) == before
        new = [
            client.describe_endpoint(EndpointName=name)
            for name in ("search-ranking", "search-scores")
        ]
        assert [each["EndpointConfigName"] for each in new] == [
            each["EndpointConfigName"] for each in old
        ]
        assert [each["CreationTime"] for each in new] == [each["CreationTime"] for each in old]
