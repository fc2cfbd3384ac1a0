"""The template of one environment, as `cdk synth` writes it."""

import json
import tempfile
from typing import Any

import aws_cdk as cdk

from infra.parameters.loading import Loaded
from stacks.environment_stage import EnvironmentStage


def template(loaded: Loaded) -> dict[str, Any]:
    """Of ENV/endpoint. The environment has no errors: the caller has looked."""
    flags = json.loads((loaded.root / "cdk.json").read_text(encoding="utf-8")).get("context", {})
    with tempfile.TemporaryDirectory(prefix="servable-synthesis-") as out:
        app = cdk.App(
            analytics_reporting=False,
            builtin_cloud_formation_validation=False,
            context=flags,
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
