"""An assembly that was packed at synth is deployed where nothing of the project is. With the real CDK CLI."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.checkouts import ROOT, run_in
from tests.deployment.conftest import Deployment

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def elsewhere(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the assembly alone."""
    ran = deployment.cdk("synth", "--quiet", "--output", "asm", "--context", "pack=synth")
    assert (deployment.project / "asm").is_dir(), ran.stdout + ran.stderr
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.move(deployment.project / "asm", folder / "asm")
    return folder


def test_no_manifest_runs_a_command(elsewhere: Path) -> None:
    manifests = [json.loads(file.read_text()) for file in elsewhere.rglob("*.assets.json")]
    sources = [asset["source"] for one in manifests for asset in one["files"].values()]
    assert (len(sources) > 3, [one for one in sources if "executable" in one]) == (True, [])


def test_its_template_is_the_one_that_packs_when_it_is_published(
    deployment: Deployment, elsewhere: Path
) -> None:
    (file,) = (elsewhere / "asm" / "assembly-local").glob("*.template.json")
    assert json.loads(file.read_text()) == deployment.template()


def test_it_is_deployed_without_the_project(
    deployment: Deployment, elsewhere: Path, tmp_path: Path
) -> None:
    for name, program in (
        ("node", ROOT / ".venv/bin/node"),
        ("cdk", ROOT / "node_modules/.bin/cdk"),
    ):
        (tmp_path / name).symlink_to(program.resolve())
    environment = deployment.aws.environment_over(
        {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": os.environ["HOME"]}
    )
    hidden = deployment.project.rename(deployment.project.with_name("hidden"))
    try:
        ran = run_in(
            elsewhere, "cdk", "deploy", "--app", "asm", "local/*", "--require-approval", "never",
            environment=environment,
        )  # fmt: skip
    finally:
        hidden.rename(deployment.project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
