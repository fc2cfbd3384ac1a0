"""An assembly that was packed at synth is deployed where nothing of the project is. With the real CDK CLI."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.checkouts import ROOT, run_in
from tests.deployment.conftest import bootstrapped_copy

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_an_assembly_with_its_archive_runs_no_command_and_is_deployed_without_the_project(
    tmp_path: Path,
) -> None:
    elsewhere, programs = tmp_path / "elsewhere", tmp_path / "programs"
    elsewhere.mkdir()
    programs.mkdir()
    for name in (".venv/bin/node", "node_modules/.bin/cdk"):
        (programs / Path(name).name).symlink_to((ROOT / name).resolve())
    with bootstrapped_copy(tmp_path) as made:
        made.cdk("synth", "--quiet", "--output", "asm", "--context", "pack=synth")
        shutil.move(made.project / "asm", elsewhere / "asm")
        manifests = [json.loads(file.read_text()) for file in elsewhere.rglob("*.assets.json")]
        sources = [asset["source"] for one in manifests for asset in one["files"].values()]
        assert (len(sources) > 3, [one for one in sources if "executable" in one]) == (True, [])
        assert len(list((elsewhere / "asm" / "assembly-local" / "packed").glob("*.tar.gz"))) == 1

        made.project.rename(tmp_path / "hidden")
        only = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": os.environ["HOME"]}
        ran = run_in(
            elsewhere, "cdk", "deploy", "--app", "asm", "local/*", "--require-approval", "never",
            environment=made.aws.environment_over(only), timeout_seconds=250,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
