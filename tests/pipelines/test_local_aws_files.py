"""The Dockerfile and the GitHub action that start a local AWS: their syntax, and their commands, run here."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from servable import __version__
from servable_local.aws import down, status
from tests.checkouts import ROOT, succeed_in

FOLDER = ROOT / "packages" / "servable-local"
DOCKERFILE, ACTION = FOLDER / "Dockerfile", FOLDER / "action.yml"
PROGRAMS = Path(sys.executable).parent


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    """https://github.com/hadolint/hadolint parses it as Docker does."""
    ran = succeed_in(ROOT, PROGRAMS / "hadolint", "--no-color", DOCKERFILE)
    assert ran.stdout + ran.stderr == ""


@pytest.mark.long
def test_the_action_is_of_githubs_schema_and_zizmor_finds_nothing() -> None:
    """The schema of https://www.schemastore.org, which check-jsonschema carries."""
    schema = ("--builtin-schema", "vendor.github-actions")
    succeed_in(ROOT, PROGRAMS / "check-jsonschema", *schema, ACTION)
    succeed_in(ROOT, PROGRAMS / "zizmor", "--offline", "--quiet", ACTION)


def test_the_files_install_the_version_of_the_wheel() -> None:
    (argument,) = re.findall(r"^ARG VERSION=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    inputs = yaml.safe_load(ACTION.read_text())["inputs"]
    assert (argument, inputs["version"]["default"]) == (__version__, __version__)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    down(folder=tmp_path / ".servable")


@pytest.mark.long
def test_the_dockerfiles_command_starts_a_local_aws(folder: Path) -> None:
    (words,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    program, *arguments = json.loads(words)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command: list[str | Path] = [PROGRAMS / program, *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        while process.poll() is None and status(folder=folder / ".servable") is None:
            time.sleep(0.05)
        running = status(folder=folder / ".servable")
        process.terminate()
    assert running is not None


@pytest.mark.long
def test_the_action_leads_later_steps_to_the_local_aws_that_it_starts(folder: Path) -> None:
    program = folder / "servable-local" / "bin" / "servable-local"
    program.parent.mkdir(parents=True)
    main = "from servable_local.aws.command import main; raise SystemExit(main())"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{main}' \"$@\"\n")
    program.chmod(0o755)
    (step,) = (one for one in yaml.safe_load(ACTION.read_text())["runs"]["steps"] if "id" in one)
    variables = {"RUNNER_TEMP": str(folder), "MINUTE": "2", "PYTHONPATH": str(ROOT)}
    files = {name: str(folder / name) for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
    # As GitHub's runner starts a step with `shell: bash`.
    bash = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
    succeed_in(folder, *bash, step["run"], environment=os.environ | variables | files)
    running = status(folder=folder / ".servable")
    assert running is not None
    lines = (folder / "GITHUB_ENV").read_text().splitlines()
    assert dict(line.split("=", 1) for line in lines) == running.environment()
