"""examples/pages/p2 in the local AWS, by the page's own commands: put, pin, deploy, verify."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.checkouts import PATH, ROOT, checkout

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_p2_is_deployed_and_verified_by_the_commands_of_its_page(tmp_path: Path) -> None:
    project = checkout(tmp_path / "project")
    page = (ROOT / "examples/pages/README.md").read_text()
    section = page.partition("## p2 in the local AWS")[2].partition("\n## ")[0]
    commands = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    assert commands[-1] == "servable local down"
    script = "\n".join(["trap 'servable local down' EXIT", *commands[:-1]])
    ran = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=project,
        env={**os.environ, "PATH": PATH, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "p2  as deployed\n" in ran.stdout
