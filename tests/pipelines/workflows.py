"""The workflows as they stand: their jobs, and the shell commands of every step."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.checkouts import ROOT

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


@dataclass(frozen=True)
class Step:
    """One `run:` of a job."""

    file: Path
    job: str
    name: str
    script: str
    shell: str | None = None
    """None: the runner's own, `bash -e`; "bash" also ends at what fails before a pipe."""


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text())
    return found


def steps(file: Path) -> Iterator[Step]:
    for job, told in read(file)["jobs"].items():
        for step in told.get("steps", []):
            if "run" in step:
                yield Step(file, job, step["name"], step["run"], step.get("shell"))


STEPS = [step for file in FILES for step in steps(file)]
