"""The record of each deployment: stack outputs, a record in the assets bucket, and an SSM parameter."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sns as sns
from constructs import Construct, IDependable

from infra.constructs.endpoint.endpoint import Endpoint
from infra.constructs.file_asset import add_file_asset
from infra.recording import FOLDER, OUTPUT, build_command
from model_packaging.beside import MADE


class DeploymentHistory(Construct):
    """The record of a deployment: an asset that the CDK CLI completes and publishes when it deploys.

    The parameter is updated after the endpoint, so that its versions are the deployments that
    succeeded, in order. docs/decisions/0024 has the alternatives.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Mapping[str, Any],
        overrides: Mapping[str, str],
        variants: Sequence[Mapping[str, Any]],
        batches: Sequence[Mapping[str, Any]],
        after: Sequence[IDependable],
        root: Path,
    ) -> None:
        """Create the record's asset, the SSM parameter, and the output of the records' prefix.

        `settings` are those of the environment file. `variants` and `batches` describe what they run.
        """
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        stack_name = stack.stack_name
        content: dict[str, Any] = {
            "stack": stack_name,
            "settings": settings,
            "overrides": dict(sorted(overrides.items())),
            "variants": list(variants),
        }
        if batches:
            content["batches"] = list(batches)
        fingerprint = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        # The template contains the name up to its first dot, so that `cdk gc` keeps the record.
        prefix = f"{FOLDER}/{stack_name}"
        made_by = build_command(
            {**content, "fingerprint": fingerprint},
            file=root / MADE / FOLDER / f"{stack_name}.{fingerprint}.json",
            root=root,
        )
        said = "record of the deployment"
        asset = add_file_asset(stack, f"{prefix}.{fingerprint}.json", made_by, said)
        pointer = cdk.CfnResource(
            self,
            "Live",
            type="AWS::SSM::Parameter",
            properties={
                "Type": "String",
                "Value": fingerprint,
                "Description": f"Deployment record of {stack_name}; see servable history",
            },
        )
        pointer.node.add_dependency(*after)
        url, about = f"s3://{asset.bucket_name}/{prefix}", "S3 prefix of the deployment records"
        cdk.CfnOutput(stack, OUTPUT, value=url, description=about)


def add_outputs(
    stack: cdk.Stack, *, endpoint: Endpoint | None, topic: sns.ITopic, overrides: Mapping[str, str]
) -> None:
    """Add the stack's outputs for callers and tools, with the overrides of this deployment."""
    outputs = {"AlarmTopicArn": (topic.topic_arn, "Topic that receives the alarms")}
    if endpoint is not None:
        outputs["EndpointName"] = endpoint.endpoint_name, "Name to pass to invoke_endpoint"
    if overrides:
        given = dict(sorted(overrides.items()))
        about = "Overrides passed with -c for this deployment, not in the file"
        outputs["Overrides"] = json.dumps(given), about
        stack.add_metadata("Overrides", given)
    for name, (value, description) in outputs.items():
        cdk.CfnOutput(stack, name, value=value, description=description)
