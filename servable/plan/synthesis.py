"""Synthesises the templates of an environment file, with the app that `cdk deploy` calls."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.parameters.environment import build_stack_name as named
from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from servable.app import prefer_installed_node
from servable.new.project_files import read_cdk_context
from servable.project.environments import find_cdk_command

TIMEOUT_SECONDS = 300
STOP_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class SynthesisedStack:
    """One stack of an environment."""

    kind: str
    """endpoint or data."""
    name: str
    """Name in CloudFormation."""
    template: dict[str, Any]


def synthesise_stacks(
    loaded: ValidFile, folder: Path, overrides: Mapping[str, str]
) -> list[SynthesisedStack]:
    """Synthesise every stack of one environment.

    `folder` is the folder of the files; `overrides` maps dotted keys to values. Only caches are
    written into the project. Raises `PackagingError`.
    """
    context = {
        **read_cdk_context(loaded.root),  # feature flags change the template
        "environments": str(folder),
        **{f"{loaded.name}.{key}": value for key, value in overrides.items()},
    }
    with tempfile.TemporaryDirectory(prefix="servable-synth-") as out:
        with subprocess.Popen(
            # -P: folders of the project hide no package of ours.
            [sys.executable, "-P", "-m", "servable.app"],
            cwd=loaded.root,
            env={**os.environ, "CDK_OUTDIR": out, "CDK_CONTEXT_JSON": json.dumps(context)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as app:
            try:
                _, errors = app.communicate(timeout=TIMEOUT_SECONDS)
            except BaseException:
                app.terminate()  # not killed, as subprocess.run does: it removes its own files
                app.wait(STOP_SECONDS)
                raise
        if app.returncode:
            reason = (errors.strip().splitlines() or ["servable-app failed"])[-1]
            raise PackagingError(loaded.root, reason, f"see `{find_cdk_command()} synth`")
        return _read_stacks(Path(out, f"assembly-{loaded.name}"), loaded)


def synthesise_endpoint(loaded: ValidFile) -> dict[str, Any]:
    """Return the template of ENV/endpoint. Raises the same errors as `synthesise_templates`."""
    return synthesise_templates(loaded)["endpoint"]


def synthesise_templates(loaded: ValidFile) -> dict[str, dict[str, Any]]:
    """Return the templates of ENV/endpoint and ENV/data as `cdk synth` writes them, by kind.

    They are synthesised in this process, which takes half the time of a subprocess. Only an
    environment that keeps requests has data. The caller has checked the environment. Raises
    `PackagingError` if the CDK rejects it, as it does without the feature flags of `servable
    new`.
    """
    prefer_installed_node()  # which the next lines start
    # Imported here: it takes a second, and reading stack names does not need it.
    from stacks.app import start_cdk

    start_cdk()
    import aws_cdk as cdk

    from stacks.environment_stage import EnvironmentStage

    with tempfile.TemporaryDirectory(prefix="servable-synthesis-") as out:
        app = cdk.App(
            analytics_reporting=False,
            builtin_cloud_formation_validation=False,
            context=read_cdk_context(loaded.root),
            outdir=out,
        )
        # The findings are left out: the command has printed them already.
        try:
            stage = EnvironmentStage(app, loaded, [])
        except RuntimeError as wrong:  # what jsii raises for an error of CDK's JavaScript
            raise PackagingError(
                Path("cdk.json"),
                f"CDK rejects the stacks of {loaded.name} with these feature flags: {wrong}",
                "add the flags that `servable doctor` lists to its context",
            ) from None
        assembly = app.synth().get_nested_assembly(f"assembly-{loaded.name}")
        return {
            kind: assembly.get_stack_artifact(stack.artifact_id).template
            for kind in ("endpoint", "data")
            if isinstance(stack := stage.node.try_find_child(kind), cdk.Stack)
        }


def _read_stacks(assembly: Path, loaded: ValidFile) -> list[SynthesisedStack]:
    manifest = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))
    stacks = []
    for artifact in manifest["artifacts"].values():
        if artifact["type"] != "aws:cloudformation:stack":
            continue
        properties = artifact["properties"]
        kind = artifact["displayName"].rsplit("/", 1)[-1].partition(" ")[0]
        template = json.loads((assembly / properties["templateFile"]).read_text(encoding="utf-8"))
        if not template.get("Resources"):
            remedy = f"see `servable check {loaded.name}`"
            raise PackagingError(Path(loaded.file), "is refused", remedy)
        name = properties.get("stackName", artifact["displayName"])
        stacks.append(SynthesisedStack(kind=kind, name=name, template=template))
    return stacks


def build_stack_name(loaded: ValidFile, kind: str = "endpoint") -> str:
    """Return the CloudFormation name of a stack of the environment."""
    return named(loaded.name, loaded.environment, kind)
