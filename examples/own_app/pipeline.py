"""A CDK pipeline that deploys a stack of one's own beside an environment file.

cdk synth --app "python examples/own_app/pipeline.py", from the project's folder.
"""

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_iam as iam
from aws_cdk import pipelines
from constructs import Construct

from servable.constructs import Environment

# Else CodeBuild takes versions of its own choice, and another choice on another day.
# Source: https://docs.aws.amazon.com/codebuild/latest/userguide/available-runtimes.html (2026-11)
VERSIONS = {"nodejs": "22", "python": "3.12"}
CONNECTION = (
    "arn:aws:codeconnections:eu-west-1:111111111111:connection/00000000-0000-0000-0000-000000000000"
)


class Live(cdk.Stage):
    """One deployment: the file's stacks, and a role that may ask its endpoint."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        ranker = Environment(self, "ranker", file="environments/prod.toml")
        stack = cdk.Stack(
            self,
            "callers",
            env=cdk.Environment(
                account=ranker.endpoint_stack.account, region=ranker.endpoint_stack.region
            ),
        )
        stack.add_stack_dependency(ranker.endpoint_stack)
        site = iam.Role(stack, "Site", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        ranker.endpoint.grant_invoke(site)


class Delivery(cdk.Stack):
    """The pipeline; it synthesises this app, publishes its assets and deploys `Live`."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account="111111111111", region="eu-west-1"),
        )
        source = pipelines.CodePipelineSource.connection(
            "owner/search", "main", connection_arn=CONNECTION
        )
        pipeline = pipelines.CodePipeline(
            self,
            "Pipeline",
            pipeline_type=codepipeline.PipelineType.V2,
            cross_account_keys=True,
            enable_key_rotation=True,
            code_build_defaults=pipelines.CodeBuildOptions(
                partial_build_spec=codebuild.BuildSpec.from_object(
                    {"phases": {"install": {"runtime-versions": VERSIONS}}}
                )
            ),
            synth=pipelines.ShellStep(
                "Synth",
                input=source,
                install_commands=["npm ci", "pip install 'servable-endpoints[synth]'"],
                commands=["npx cdk synth --app 'python examples/own_app/pipeline.py'"],
            ),
        )
        pipeline.add_stage(Live(self, "live"))


# The pipeline's publishing step has the cloud assembly and not the model: archives are packed now.
app = cdk.App(context={"servable:pack-at-synth": True})
Delivery(app, "delivery")
app.synth()
