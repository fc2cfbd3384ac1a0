"""The app of CDK Pipelines on docs/pipelines.md: its steps publish what was packed at synth."""

import json
import shutil
from pathlib import Path

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


def test_the_archive_is_published_from_its_manifest(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "environments", tmp_path / "environments")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "ranker").symlink_to(ROOT / "examples" / "ranker")
    app = cdk.App(outdir=str(tmp_path / "cdk.out"))
    stack = cdk.Stack(app, "delivery", env=HERE)
    repository = codecommit.Repository.from_repository_name(stack, "Repository", "service")
    source = pipelines.CodePipelineSource.code_commit(repository, "main")
    commands = ["pip install -r requirements.txt", "npx cdk synth"]
    build = pipelines.ShellStep("Synth", input=source, commands=commands)
    pipeline = pipelines.CodePipeline(stack, "Pipeline", synth=build)
    loaded = next(one for one in load(tmp_path, tmp_path / "environments") if one.name == "prod")
    stage = EnvironmentStage(app, valid(loaded), check(loaded))
    pipeline.add_stage(stage, pre=[pipelines.ManualApprovalStep("Approve")])
    app.synth()
    assembly = Path(app.outdir)
    list(pack(assembly))
    manifests = [json.loads(file.read_text()) for file in assembly.rglob("*.assets.json")]
    assert [one for one in manifests if "executable" in json.dumps(one)] == []

    (manifest,) = (assembly / "assembly-prod").glob("*.assets.json")
    files = json.loads(manifest.read_text())["files"]
    (archive,) = [name for name in files if name.endswith(".tar.gz")]
    published = json.dumps(Template.from_stack(stack).to_json())
    assert f"assembly-prod/{manifest.name}" in published
    assert f"{archive}:" in published
