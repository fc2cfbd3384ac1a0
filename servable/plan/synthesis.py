"""Synthesises the templates of an environment file, as `cdk synth` writes them."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from servable.app import prefer_installed_node
from servable.new.project_files import read_cdk_context


@dataclass(frozen=True)
class SynthesisedStack:
    """One stack of an environment."""

    kind: str
    """endpoint or data."""
    name: str
    """Name in CloudFormation."""
    template: dict[str, Any]


def synthesise_endpoint(loaded: ValidFile) -> dict[str, Any]:
    """Return the template of ENV/endpoint. Raises the same errors as `synthesise_stacks`."""
    return synthesise_templates(loaded)["endpoint"]


def synthesise_templates(loaded: ValidFile) -> dict[str, dict[str, Any]]:
    """Return the templates of `synthesise_stacks`, by kind."""
    return {stack.kind: stack.template for stack in synthesise_stacks(loaded)}


def synthesise_stacks(loaded: ValidFile) -> list[SynthesisedStack]:
    """Return the stacks ENV/data and ENV/endpoint, as `cdk synth` writes them.

    They are synthesised in this process, which takes half the time of a subprocess. Only an
    environment that keeps requests has data. The caller has checked the environment. Raises
    `PackagingError` if the CDK rejects it, as it does without the feature flags of `servable
    new`.
    """
    prefer_installed_node()  # which the next lines start
    # Imported here: it takes a second, and other commands don't need it.
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
                "add the flags that `servable doctor` lists to the context in cdk.json",
            ) from None
        assembly = app.synth().get_nested_assembly(f"assembly-{loaded.name}")
        stacks = []
        for kind in ("data", "endpoint"):  # in the order of deployment
            if isinstance(stack := stage.node.try_find_child(kind), cdk.Stack):
                template = assembly.get_stack_artifact(stack.artifact_id).template
                stacks.append(SynthesisedStack(kind, stack.stack_name, template))
        return stacks
