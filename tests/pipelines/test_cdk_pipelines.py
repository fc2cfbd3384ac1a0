"""The app of CDK Pipelines on docs/pipelines.md: its steps publish what was packed at synth."""

import json
import shutil
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_codecommit as codecommit
from aws_cdk import pipelines
from aws_cdk.assertions import Template

from infra.parameters.loading import load
from infra.preflight.check import check
from stacks.environment_stage import EnvironmentStage
from stacks.packed_assembly import pack
from tests.checkouts import ROOT
from tests.conftest import valid

pytestmark = pytest.mark.long
HERE = cdk.Environment(account="333333333333", region="eu-west-1")


@pytest.fixture(scope="module")
def delivery(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The assembly, and the template of the pipeline."""
    root = tmp_path_factory.mktemp("service")
    shutil.copytree(ROOT / "environments", root / "environments")
    (root / "examples").mkdir()
    (root / "examples" / "ranker").symlink_to(ROOT / "examples" / "ranker")
    app = cdk.App(outdir=str(root / "cdk.out"))
    stack = cdk.Stack(app, "delivery", env=HERE)
    repository = codecommit.Repository.from_repository_name(stack, "Repository", "service")
    source = pipelines.CodePipelineSource.code_commit(repository, "main")
    commands = ["pip install -r requirements.txt", "npx cdk synth"]
    build = pipelines.ShellStep("Synth", input=source, commands=commands)
    pipeline = pipelines.CodePipeline(stack, "Pipeline", synth=build)
    loaded = next(one for one in load(root, root / "environments") if one.name == "prod")
    stage = EnvironmentStage(app, valid(loaded), check(loaded))
    pipeline.add_stage(stage, pre=[pipelines.ManualApprovalStep("Approve")])
    app.synth()
    list(pack(Path(app.outdir)))
    return Path(app.outdir), dict(Template.from_stack(stack).to_json())


def test_the_archive_is_published_from_its_manifest(delivery: tuple[Path, dict[str, Any]]) -> None:
    manifests = [json.loads(file.read_text()) for file in delivery[0].rglob("*.assets.json")]
    assert [one for one in manifests if "executable" in json.dumps(one)] == []

    (manifest,) = (delivery[0] / "assembly-prod").glob("*.assets.json")
    files = json.loads(manifest.read_text())["files"]
    (archive,) = [name for name in files if name.endswith(".tar.gz")]
    published = json.dumps(delivery[1])
    assert f"assembly-prod/{manifest.name}" in published
    assert f"{archive}:" in published
