"""Runs the workflows' own shell, as GitHub's runner has it, in a copy of the project."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from servable_local.aws import LocalAws
from tests.checkouts import PATH, ROOT
from tests.pipelines.workflows import STEPS, Step

TIMEOUT_SECONDS = 200


class Runner:
    """`gh` is a stand-in that keeps what it was told: nothing leaves this computer."""

    def __init__(self, project: Path, aws: LocalAws, **variables: str) -> None:
        self.project = project
        (project / ".venv").symlink_to(ROOT / ".venv")
        (project / "node_modules").symlink_to(ROOT / "node_modules")
        self.told = project.parent / "gh.txt"
        own = project.parent / "bin"
        own.mkdir()
        (own / "gh").write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > {self.told}\ncat cost.md >> {self.told}\n'
        )
        (own / "gh").chmod(stat.S_IRWXU)
        inside = {**os.environ, "PATH": f"{own}:{PATH}", "PYTHONPATH": str(project)}
        self.environment = aws.environment_over(inside) | variables

    def run(self, step: Step) -> str:
        """What it prints. Raises AssertionError, with its words, where it fails."""
        ran = subprocess.run(
            [
                "bash",
                "-e",
                *(["-o", "pipefail"] if step.shell == "bash" else []),
                "-c",
                step.script,
            ],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        assert ran.returncode == 0, f"{step.name}: {ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr  # the CDK CLI shows differences there

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        command = ["git", *who, *arguments]
        subprocess.run(command, cwd=self.project, check=True, capture_output=True)


def steps_of(workflow: str, *jobs: str) -> Iterator[Step]:
    """What installs made this test's own computer: every other step, as it stands."""
    for step in STEPS:
        if step.file.stem == workflow and step.job in jobs and not step.name.startswith("Install"):
            yield step
