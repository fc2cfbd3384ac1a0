"""Whose code the workflows run is fixed by commit; the audit's answer is never silently green."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.pipelines.workflows import FILES, STEPS

USES = [
    (file.name, line.strip().removeprefix("- "))
    for file in FILES
    for line in file.read_text(encoding="utf-8").splitlines()
    if re.match(r"\s*(- )?uses:", line)
]
(AUDIT,) = (step for step in STEPS if "scripts.audit" in step.script)


def test_an_action_has_one_commit_everywhere() -> None:
    assert len(USES) >= 8

    pins = {line for _, line in USES if "@" in line}
    names = [line.partition("@")[0] for line in pins]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("file", "line"), USES)
def test_an_action_is_pinned_by_commit_with_its_version_beside_it(file: str, line: str) -> None:
    own = r"uses: \./\.github/workflows/[a-z-]+\.yml"
    pinned = r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert re.fullmatch(f"{own}|{pinned}", line)


@pytest.mark.parametrize(
    ("answer", "ends", "warned"), [(0, 0, False), (1, 1, False), (3, 0, True), (2, 2, False)]
)
def test_the_audit_step_fails_for_a_known_vulnerability_and_warns_where_it_could_not_ask(
    tmp_path: Path, answer: int, ends: int, warned: bool
) -> None:
    ran = audit_step(tmp_path, answer)
    assert ran.returncode == ends
    assert any(line.startswith("::warning ") for line in ran.stdout.splitlines()) is warned


def audit_step(project: Path, answer: int) -> subprocess.CompletedProcess[str]:
    """The step's own shell, with an audit that ends with `answer`."""
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ntest "$*" = "-m scripts.audit" || exit 99\nexit {answer}\n')
    python.chmod(0o755)
    return subprocess.run(
        ["bash", "-e", "-c", AUDIT.script],
        cwd=project,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
