"""Every environment of the project and of examples/, synthesised in process, once."""

import functools
import json
import tempfile
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from infra.parameters.finding import Finding
from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check, select_errors
from scripts.check_templates import list_presets
from stacks.environment_stage import EnvironmentStage
from tests.checkouts import ROOT
from tests.conftest import valid

FLAGS = json.loads((ROOT / "cdk.json").read_text())["context"]
Templates = dict[str, dict[str, Any]]


@functools.cache
def environments() -> dict[str, ValidFile]:
    """{folder/name: the file}; one that is there to be refused is left out."""
    return {
        f"{folder.name}/{loaded.name}": valid(loaded)
        for folder in [ROOT / "environments", *list_presets(ROOT)]
        for loaded in load(ROOT, folder)
        if loaded.name != "refused"
    }


@functools.cache
def templates(name: str) -> Templates:
    """{stack: its template}. Raises AssertionError for one that is refused."""
    loaded = environments()[name]
    findings = check(loaded)
    assert select_errors(findings) == [], findings
    return synthesised(loaded, findings)


def synthesised(loaded: ValidFile, findings: list[Finding] | None = None) -> Templates:
    """{stack: its template}, of an environment without an error. `findings`: of `check`, made already."""
    with tempfile.TemporaryDirectory() as out:
        app = cdk.App(context=FLAGS, outdir=out)
        stage = EnvironmentStage(app, loaded, check(loaded) if findings is None else findings)
        stacks = [child for child in stage.node.children if isinstance(child, cdk.Stack)]
        return {stack.node.id: dict(Template.from_stack(stack).to_json()) for stack in stacks}
