"""What a stack says about itself: outputs, and the overrides it was made with."""

import json
from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_sns as sns

from infra.constructs.endpoint.model_endpoint import ModelEndpoint


def record(
    stack: cdk.Stack, *, endpoint: ModelEndpoint, topic: sns.ITopic, overrides: Mapping[str, str]
) -> None:
    """Outputs for callers and tools. Overrides in force are seen by everybody who looks."""
    outputs = {
        "EndpointName": (endpoint.resource.attr_endpoint_name, "What invoke_endpoint takes"),
        "AlarmTopicArn": (topic.topic_arn, "Where the alarms are sent"),
    }
    if overrides:
        said = json.dumps(dict(sorted(overrides.items())))
        outputs["Overrides"] = (said, "Given with -c for this deployment, and not in the file")
        stack.add_metadata("Overrides", dict(sorted(overrides.items())))
    for name, (value, description) in outputs.items():
        cdk.CfnOutput(stack, name, value=value, description=description)
