"""Every command of the workflows exists, and no workflow holds a key or more rights than it needs."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from infra.parameters.loading import ValidFile, load
from servable.main import COMMANDS, servable
from tests.checkouts import PYTHONS, ROOT
from tests.pipelines.workflows import FILES, FOLDER, STEPS, Step, read

TEMPLATE = ROOT / "servable" / "new" / "template" / "dot-github" / "workflows"
ACCEPTED = FOLDER.parent / "zizmor.yml"
TARGETS = set(re.findall(r"^([.a-zA-Z/-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def named(step: Step) -> str:
    return f"{step.file.stem}: {step.job}: {step.name}"


@pytest.mark.parametrize("step", STEPS, ids=named)
def test_a_step_is_valid_shell_calls_what_there_is_and_fails_before_a_pipe(step: Step) -> None:
    ran = subprocess.run(
        ["bash", "-n"], input=step.script, text=True, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")

    for target in re.findall(r"\bmake (\S+)", step.script):
        assert target in TARGETS
    called = r"(?:bin/|^ *|\$\()servable (\S+)([^\n|]*)"
    for name, rest in re.findall(called, step.script, re.MULTILINE):
        assert name in COMMANDS
        command = servable.get_command(click.Context(servable), name)
        assert command is not None
        known = {option for one in command.params for option in one.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known

    assert step.shell == "bash" or not re.search(r"[^|]\|[^|]", step.script)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_workflow_may_read_the_sources_and_holds_no_key(file: Path) -> None:
    assert read(file)["permissions"] == {"contents": "read"}
    assert "secrets." not in file.read_text()


@pytest.mark.parametrize("folder", [FOLDER, TEMPLATE], ids=["here", "of a new project"])
def test_zizmor_finds_nothing_that_is_not_accepted_in_the_workflows(folder: Path) -> None:
    """Credentials left on the runner, broad permissions, actions by tag, expressions in a shell …

    The strictest form; a file that is not of GitHub's schema is an error.
    """
    options = ["--offline", "--strict-collection", "--persona", "auditor"]
    files = sorted(folder.glob("*.yml"))
    ran = subprocess.run(
        [Path(sys.executable).with_name("zizmor"), *options, "--config", ACCEPTED, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_release_is_published_by_its_job_once_it_is_built_installed_and_approved() -> None:
    release = read(FOLDER / "release.yml")
    assert [
        job
        for job, table in {"": release, **release["jobs"]}.items()
        if "id-token" in table.get("permissions", {})
    ] == ["publish"]
    publish = read(FOLDER / "release.yml")["jobs"]["publish"]
    assert ({*publish["needs"]}, publish["environment"]) == ({"check", "install"}, "pypi")
    matrix = read(FOLDER / "release.yml")["jobs"]["install"]["strategy"]["matrix"]
    assert tuple(matrix["python"]) == PYTHONS
    builds = read(FOLDER / "release.yml")["jobs"]["build"]["strategy"]["matrix"]["include"]
    assert len({(one["runner"], one["python"]) for one in builds}) == len(builds) == 2


def test_staging_is_deployed_replayed_verified_and_held_to_its_load_before_production() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "deploy.yml")["jobs"]
    assert jobs["production"]["needs"] == "staging"
    jobs = read(ROOT / ".github" / "workflows" / "deploy.yml")["jobs"].values()
    for job in jobs:
        assert (ROOT / "environments" / f"{job['with']['environment']}.toml").is_file()

    scripts = [step.script for step in STEPS if step.file.stem == "deploy-environment"]
    replayed = next(at for at, script in enumerate(scripts) if "servable replay" in script)
    deployed = next(at for at, script in enumerate(scripts) if "cdk deploy" in script)
    assert replayed < deployed
    assert "--gate" in scripts[replayed]

    names = [step.script for step in STEPS if step.file.stem == "deploy-environment"]
    deployed = next(at for at, script in enumerate(names) if "cdk deploy" in script)
    verified = next(at for at, script in enumerate(names) if "servable verify" in script)
    assert deployed < verified

    assert any("servable load" in script and "--gate" in script for script in names[verified:])
    jobs = read(ROOT / ".github" / "workflows" / "deploy.yml")["jobs"]
    assert jobs["staging"]["with"]["load-gate"] is True

    (staging,) = (one for one in load(ROOT, ROOT / "environments") if one.name == "staging")
    assert isinstance(staging, ValidFile)
    expected = staging.environment.traffic.peak_rps, staging.environment.alarms.p99_latency_ms
    assert None not in expected
