"""The templates that an environment file stands for now, made by the app that `cdk deploy` calls."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.parameters.environment import stack_name as named
from infra.parameters.loading import Loaded
from model_packaging.refusal import PackagingError

TIMEOUT_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class SynthesisedStack:
    """One stack of an environment."""

    kind: str
    """endpoint or data."""
    name: str
    """As CloudFormation knows it."""
    template: dict[str, Any]


def synthesised(
    loaded: Loaded, folder: Path, overrides: Mapping[str, str]
) -> list[SynthesisedStack]:
    """Every stack of one environment. `folder`: of the files; `overrides`: dotted key -> value.

    Writes nothing into the project but what may be made again. Raises `PackagingError`.
    """
    context = {
        **_own_context(loaded.root),
        "environments": str(folder),
        **{f"{loaded.name}.{key}": value for key, value in overrides.items()},
    }
    with tempfile.TemporaryDirectory(prefix="servable-synth-") as out:
        ran = subprocess.run(
            # -P: folders of the project hide no package of ours.
            [sys.executable, "-P", "-m", "servable.app"],
            cwd=loaded.root,
            env={**os.environ, "CDK_OUTDIR": out, "CDK_CONTEXT_JSON": json.dumps(context)},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        if ran.returncode:
            said = (ran.stderr.strip().splitlines() or ["servable-app failed"])[-1]
            raise PackagingError(loaded.root, said, "see `cdk synth`")
        return _stacks(Path(out, f"assembly-{loaded.name}"), loaded)


def endpoint_template(loaded: Loaded) -> dict[str, Any]:
    """Of ENV/endpoint alone, in this process, as `cdk synth` writes it: half the time.

    The environment has no errors: the caller has looked.
    """
    import aws_cdk as cdk  # a second: what only reads stacks' names does without it

    from stacks.environment_stage import EnvironmentStage

    with tempfile.TemporaryDirectory(prefix="servable-synthesis-") as out:
        app = cdk.App(
            analytics_reporting=False,
            builtin_cloud_formation_validation=False,
            context=_own_context(loaded.root),
            outdir=out,
        )
        # Without its warnings: the CLI would print them beside what this is asked for.
        stage = EnvironmentStage(app, loaded, [])
        stack = stage.node.find_child("endpoint")
        assert isinstance(stack, cdk.Stack)
        found: dict[str, Any] = (
            app.synth()
            .get_nested_assembly(f"assembly-{loaded.name}")
            .get_stack_artifact(stack.artifact_id)
            .template
        )
        return found


def _own_context(root: Path) -> dict[str, Any]:
    """Of cdk.json, as the CLI passes it: feature flags decide how a template looks."""
    try:
        found = json.loads((root / "cdk.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    context: dict[str, Any] = found.get("context", {})
    return context


def _stacks(assembly: Path, loaded: Loaded) -> list[SynthesisedStack]:
    manifest = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))
    found = []
    for artifact in manifest["artifacts"].values():
        if artifact["type"] != "aws:cloudformation:stack":
            continue
        told = artifact["properties"]
        kind = artifact["displayName"].rsplit("/", 1)[-1].partition(" ")[0]
        template = json.loads((assembly / told["templateFile"]).read_text(encoding="utf-8"))
        if not template.get("Resources"):
            problem = "is refused"
            raise PackagingError(Path(loaded.file), problem, f"see `servable check {loaded.name}`")
        name = told.get("stackName", artifact["displayName"])
        found.append(SynthesisedStack(kind=kind, name=name, template=template))
    return found


def stack_name(loaded: Loaded, kind: str = "endpoint") -> str:
    """Of a stack of the environment, as CloudFormation knows it."""
    assert loaded.environment is not None  # the caller has looked at its findings
    return named(loaded.name, loaded.environment, kind)
