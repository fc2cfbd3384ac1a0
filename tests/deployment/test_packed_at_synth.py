"""An assembly that was packed at synth is deployed where nothing of the project is. With the real CDK CLI."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkouts import ROOT, run_in
from tests.deployment.conftest import Deployment, bootstrapped_copy

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def bootstrapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with bootstrapped_copy(tmp_path_factory.mktemp("packed")) as made:
        yield made


@pytest.fixture(scope="module")
def elsewhere(bootstrapped: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the assembly alone."""
    bootstrapped.cdk("synth", "--quiet", "--output", "asm", "--context", "pack=synth")
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.move(bootstrapped.project / "asm", folder / "asm")
    return folder


def test_an_assembly_with_its_archive_runs_no_command_and_is_deployed_without_the_project(
    bootstrapped: Deployment, elsewhere: Path, tmp_path: Path
) -> None:
    manifests = [json.loads(file.read_text()) for file in elsewhere.rglob("*.assets.json")]
    sources = [asset["source"] for one in manifests for asset in one["files"].values()]
    assert (len(sources) > 3, [one for one in sources if "executable" in one]) == (True, [])
    assert len(list((elsewhere / "asm" / "assembly-local" / "packed").glob("*.tar.gz"))) == 1
    for name, program in (
        ("node", ROOT / ".venv/bin/node"),
        ("cdk", ROOT / "node_modules/.bin/cdk"),
    ):
        (tmp_path / name).symlink_to(program.resolve())
    environment = bootstrapped.aws.environment_over(
        {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": os.environ["HOME"]}
    )
    hidden = bootstrapped.project.rename(bootstrapped.project.with_name("hidden"))
    try:
        ran = run_in(
            elsewhere, "cdk", "deploy", "--app", "asm", "local/*", "--require-approval", "never",
            environment=environment, timeout_seconds=250,
        )  # fmt: skip
    finally:
        hidden.rename(bootstrapped.project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
