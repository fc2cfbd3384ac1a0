"""Every command of the workflows exists, and no workflow holds a key or more rights than it needs.

Whose code they run is fixed by commit; the audit's answer is never silently green.
"""

import re
import sys
from pathlib import Path

import click
import pytest

from infra.parameters.loading import load
from servable.main import COMMANDS, servable
from tests.checkouts import PYTHONS, ROOT, run_in, succeed_in
from tests.conftest import valid
from tests.pipelines.workflows import FILES, FOLDER, STEPS, Step, read

TEMPLATE = ROOT / "servable" / "new" / "template" / "dot-github" / "workflows"
ACCEPTED = FOLDER.parent / "zizmor.yml"
TARGETS = set(re.findall(r"^([.a-zA-Z/-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
USES = [
    line.strip().removeprefix("- ")
    for file in FILES
    for line in file.read_text(encoding="utf-8").splitlines()
    if re.match(r"\s*(- )?uses:", line)
]


def named(step: Step) -> str:
    return f"{step.file.stem}: {step.job}: {step.name}"


@pytest.mark.parametrize("step", STEPS, ids=named)
def test_a_step_is_valid_shell_calls_what_there_is_and_fails_before_a_pipe(step: Step) -> None:
    ran = run_in(ROOT, "bash", "-n", given=step.script)
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
    zizmor = Path(sys.executable).with_name("zizmor")
    succeed_in(ROOT, zizmor, *options, "--config", ACCEPTED, *files)


def test_a_release_is_published_by_its_job_once_it_is_built_installed_and_approved() -> None:
    release = read(FOLDER / "release.yml")
    jobs = release["jobs"]
    rights = {job: table.get("permissions", {}) for job, table in {"": release, **jobs}.items()}
    assert [job for job in rights if "id-token" in rights[job]] == ["publish"]
    publish = jobs["publish"]
    assert ({*publish["needs"]}, publish["environment"]) == ({"check", "install"}, "pypi")
    assert tuple(jobs["install"]["strategy"]["matrix"]["python"]) == PYTHONS
    builds = jobs["build"]["strategy"]["matrix"]["include"]
    assert len({(one["runner"], one["python"]) for one in builds}) == len(builds) == 2


def test_staging_is_deployed_replayed_verified_and_held_to_its_load_before_production() -> None:
    jobs = read(FOLDER / "deploy.yml")["jobs"]
    assert jobs["production"]["needs"] == "staging"
    assert jobs["staging"]["with"]["load-gate"] is True
    for job in jobs.values():
        assert (ROOT / "environments" / f"{job['with']['environment']}.toml").is_file()

    scripts = [step.script for step in STEPS if step.file.stem == "deploy-environment"]
    replayed, deployed, verified = (
        next(at for at, script in enumerate(scripts) if command in script)
        for command in ("servable replay", "cdk deploy", "servable verify")
    )
    assert replayed < deployed < verified
    assert "--gate" in scripts[replayed]
    assert any("servable load" in one and "--gate" in one for one in scripts[verified:])

    (staging,) = (one for one in load(ROOT, ROOT / "environments") if one.name == "staging")
    environment = valid(staging).environment
    assert None not in (environment.traffic.peak_rps, environment.alarms.p99_latency_ms)


def test_an_action_is_pinned_by_one_commit_with_its_version_beside_it() -> None:
    assert len(USES) >= 8
    own = r"uses: \./\.github/workflows/[a-z-]+\.yml"
    pinned = r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert [line for line in USES if not re.fullmatch(f"{own}|{pinned}", line)] == []
    names = [line.partition("@")[0] for line in {line for line in USES if "@" in line}]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("answer", "ends", "warned"), [(0, 0, False), (1, 1, False), (3, 0, True), (2, 2, False)]
)
def test_the_audit_step_fails_for_a_known_vulnerability_and_warns_where_it_could_not_ask(
    tmp_path: Path, answer: int, ends: int, warned: bool
) -> None:
    """The step's own shell, with an audit that ends with `answer`."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ntest "$*" = "-m scripts.audit" || exit 99\nexit {answer}\n')
    python.chmod(0o755)
    (step,) = (step for step in STEPS if "scripts.audit" in step.script)
    ran = run_in(tmp_path, "bash", "-e", "-c", step.script)
    assert ran.returncode == ends
    assert any(line.startswith("::warning ") for line in ran.stdout.splitlines()) is warned
