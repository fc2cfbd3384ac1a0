"""The workflows' own shell, step by step, as GitHub's runner has it, against the local AWS."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from servable_local.aws import LocalAws
from tests.checkouts import PATH, ROOT, succeed_in
from tests.deployment.conftest import bootstrapped_copy
from tests.pipelines.workflows import STEPS, Step

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
# A busy machine stands for the instance: what is held here is that the gate asks and decides.
BORNE = {
    "peak_rps = 100": "peak_rps = 10",
    "[traffic]": "[alarms]\np99_latency_ms = 20_000\n\n[traffic]",
}
# A hundred requests in ten seconds: what the gate decides is asked here, and not how sure it is.
SHORTER = (
    ("options.py", "default=30.0", "default=10.0"),
    ("gate.py", "_LEAST_REQUESTS = 2000", "_LEAST_REQUESTS = 100"),
    ("gate.py", "_LEAST_SECONDS = 120.0", "_LEAST_SECONDS = 10.0"),
    ("gate.py", "CONFIDENCE = 0.99", "CONFIDENCE = 0.5"),
)


class Runner:
    """`gh` is a stand-in that keeps what it was told: nothing leaves this computer."""

    def __init__(self, project: Path, aws: LocalAws, **variables: str) -> None:
        self.project = project
        for installed in (".venv", "node_modules"):
            (project / installed).symlink_to(ROOT / installed)
        self.told = project.parent / "gh.txt"
        gh = project.parent / "bin" / "gh"
        gh.parent.mkdir()
        gh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {self.told}\ncat cost.md >> {self.told}\n')
        gh.chmod(stat.S_IRWXU)
        path = f"{gh.parent}:{PATH}"
        inside = {**os.environ, "PATH": path, "PYTHONPATH": str(project)}
        self.environment = aws.environment_over(inside) | variables

    def run(self, step: Step) -> str:
        """What it prints. Raises AssertionError, with its words, where it fails."""
        bash = ("bash", "-e", *(("-o", "pipefail") if step.shell == "bash" else ()), "-c")
        ran = succeed_in(
            self.project, *bash, step.script, environment=self.environment, timeout_seconds=200
        )
        return ran.stdout + ran.stderr  # the CDK CLI shows differences there

    def git(self, *arguments: str) -> None:
        who = ("-c", "user.name=test", "-c", "user.email=test@example.com")
        succeed_in(self.project, "git", *who, *arguments)


def steps_of(workflow: str, *jobs: str) -> Iterator[Step]:
    """What installs made this test's own computer: every other step, as it stands."""
    for step in STEPS:
        if step.file.stem == workflow and step.job in jobs and not step.name.startswith("Install"):
            yield step


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    names = {"ENVIRONMENT": "local", "ENVIRONMENTS": "local", "BASE": "HEAD", "NUMBER": "7"}
    with bootstrapped_copy(tmp_path_factory.mktemp("pipeline")) as made:
        file = made.project / "environments" / "local.toml"
        for old, new in BORNE.items():
            file.write_text(file.read_text().replace(old, new, 1))
        for name, usual, shorter in SHORTER:
            source = made.project / "servable" / "load" / name
            assert source.read_text().count(usual) == 1
            source.write_text(source.read_text().replace(usual, shorter))
        yield Runner(made.project, made.aws, **names)


@pytest.fixture(scope="module")
def said(runner: Runner) -> dict[str, str]:
    """What each step of a deployment prints."""
    return {step.name: runner.run(step) for step in steps_of("deploy-environment", "deploy")}


def test_the_steps_deploy_and_verify_what_passes_the_load_gate(said: dict[str, str]) -> None:
    assert "as deployed" in said["Verify that what is live is what was deployed"]
    held = said["Hold it to the traffic and the latency that its file expects"]
    assert "gate: met, 10 requests/s" in held


def test_the_load_gate_ends_the_pipeline(runner: Runner, said: dict[str, str]) -> None:
    steps = steps_of("deploy-environment", "deploy")
    (gate,) = (one for one in steps if "servable load" in one.script and "--gate" in one.script)
    file = runner.project / "environments" / "local.toml"
    before = file.read_text()
    file.write_text(before.replace("p99_latency_ms = 20_000", "p99_latency_ms = 0.01"))
    try:
        # On a busy computer the generator itself is late, and then it cannot be told; both end the pipeline.
        with pytest.raises(AssertionError, match=r"gate: (NOT met|cannot be told), .* too slow"):
            runner.run(gate)
    finally:
        file.write_text(before)


def test_a_pull_request_sees_its_changes(runner: Runner, said: dict[str, str]) -> None:
    runner.git("init", "--quiet")
    runner.git("add", "environments", "cdk.json")
    runner.git("commit", "--quiet", "--message", "before")
    file = runner.project / "environments" / "local.toml"
    file.write_text(file.read_text().replace("max_instances = 2", "max_instances = 3"))
    shown = {step.name: runner.run(step) for step in steps_of("pull-request", "cost", "difference")}
    assert "/month at max" in shown["What it costs"]
    assert "+$154/month at max" in runner.told.read_text()
    assert "MaxCapacity" in shown["What would change"]
