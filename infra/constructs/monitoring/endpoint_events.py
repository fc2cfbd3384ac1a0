"""Tells who is informed when an update starts, is rolled back and why, or fails."""

import json

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

Rule = events.CfnRule

# https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
SOURCE = "aws.sagemaker"
KINDS = ["SageMaker Endpoint State Change", "SageMaker Endpoint Deployment State Change"]

# Of the first variant: all of them go through the stages of an update together. Places in
# lists: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
FIELDS = {
    "kind": "$.detail-type",
    "status": "$.detail.EndpointStatus",
    "time": "$.time",
    "config": "$.detail.EndpointConfigName",
    "stage": "$.detail.PendingDeploymentSummary.ProductionVariants[0].VariantStatus[0].StatusMessage",
    "reason": "$.detail.FailureReason",
}


class EndpointEvents(Construct):
    """Changes of the endpoint's and its deployments' state, as one line each, to a topic."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint_name: str, inform: sns.ITopic
    ) -> None:
        super().__init__(scope, construct_id)
        Rule(
            self,
            "Resource",
            description=f"State changes of {endpoint_name} and of its deployments",
            event_pattern={
                "source": [SOURCE],
                "detail-type": KINDS,
                "detail": {"EndpointName": [endpoint_name]},
            },
            state="ENABLED",
            # CDK's own targets would load Lambda, ECS and more into every synth.
            targets=[
                Rule.TargetProperty(
                    arn=inform.topic_arn,
                    id="Topic",
                    input_transformer=Rule.InputTransformerProperty(
                        input_paths_map=FIELDS, input_template=json.dumps(said(endpoint_name))
                    ),
                )
            ],
        )
        inform.grant_publish(iam.ServicePrincipal("events.amazonaws.com"))


def said(endpoint_name: str) -> str:
    """One line; what is not in an event is empty there."""
    return (
        f"Endpoint {endpoint_name} (<kind>): <status> at <time>. "
        "Configuration <config>. Stage, where there is one: <stage> "
        "Reason, where there is one: <reason>"
    )
