"""Tells who is informed when an update starts, is rolled back and why, or fails."""

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

# https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
SOURCE = "aws.sagemaker"
KINDS = ["SageMaker Endpoint State Change", "SageMaker Endpoint Deployment State Change"]


class EndpointEvents(Construct):
    """Changes of the endpoint's and its deployments' state, as one line each, to a topic."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint_name: str, inform: sns.ITopic
    ) -> None:
        super().__init__(scope, construct_id)
        rule = events.Rule(
            self,
            "Resource",
            description=f"State changes of {endpoint_name} and of its deployments",
            event_pattern=events.EventPattern(
                source=[SOURCE],
                detail_type=KINDS,
                detail={"EndpointName": [endpoint_name]},
            ),
        )
        field = events.EventField.from_path
        # Of the first variant: all of them go through the stages of an update together. Places
        # in lists: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
        stage = (
            "$.detail.PendingDeploymentSummary.ProductionVariants[0].VariantStatus[0].StatusMessage"
        )
        said = (
            f"Endpoint {endpoint_name} ({field('$.detail-type')}): "
            f"{field('$.detail.EndpointStatus')} at {field('$.time')}. "
            f"Configuration {field('$.detail.EndpointConfigName')}. "
            f"Stage, where there is one: {field(stage)} "
            f"Reason, where there is one: {field('$.detail.FailureReason')}"
        )
        rule.add_target(targets.SnsTopic(inform, message=events.RuleTargetInput.from_text(said)))
