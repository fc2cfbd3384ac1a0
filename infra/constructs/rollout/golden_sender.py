"""Asks an endpoint while it is being updated, so that one that nobody calls is judged too."""

import base64
import json
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as functions
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.parameters.rollout import GoldenRequests

CODE = Path(__file__).resolve().parents[2] / "functions" / "golden_sender.py"
# https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html
RUNTIME = "python3.14"
# Importing boto3 takes memory, and Lambda gives CPU with it.
MEMORY_MIB = 256
# A minute's requests, and the last one's sixty seconds.
TIMEOUT_SECONDS = 120
LOG_DAYS = 30
PACKS = ("NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321")
WITHOUT = {
    "LambdaConcurrency": "one short call a minute; a reservation would take from the account's",
    "LambdaDLQ": "a minute that was missed is of no interest: the next one asks again",
    "LambdaInsideVPC": "it calls two AWS APIs and reads nothing of a network",
}


class GoldenSender(Construct):
    """A function that looks once a minute, and asks as often as the file says while it updates."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        golden: GoldenRequests,
        body: bytes,
        log_kms_key_arn: str | None = None,
    ) -> None:
        """`endpoint_name` is the literal: the function is there before the endpoint's update."""
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        log = logs.CfnLogGroup(
            self,
            "Log",
            log_group_name=f"/aws/lambda/{endpoint_name}-golden-requests",
            retention_in_days=LOG_DAYS,
            kms_key_id=log_kms_key_arn,
        )
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        streams = stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"{log.log_group_name}:log-stream:*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        policy = iam.Policy(
            self,
            "Policy",
            roles=[role],
            statements=[
                iam.PolicyStatement(
                    actions=["sagemaker:DescribeEndpoint", "sagemaker:InvokeEndpoint"],
                    resources=[
                        stack.format_arn(
                            service="sagemaker", resource="endpoint", resource_name=endpoint_name
                        )
                    ],
                ),
                iam.PolicyStatement(
                    actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[streams]
                ),
            ],
        )
        function = functions.CfnFunction(
            self,
            "Function",
            description=f"Asks {endpoint_name} while it is being updated",
            runtime=RUNTIME,
            handler="index.handler",
            code=functions.CfnFunction.CodeProperty(zip_file=CODE.read_text(encoding="utf-8")),
            role=role.role_arn,
            memory_size=MEMORY_MIB,
            timeout=TIMEOUT_SECONDS,
            logging_config=functions.CfnFunction.LoggingConfigProperty(log_group=log.ref),
        )
        function.node.add_dependency(policy)
        asked = {
            "endpoint": endpoint_name,
            "body": base64.b64encode(body).decode(),
            "content_type": golden.sent_as,
            "per_minute": golden.per_minute,
        }
        rule = events.CfnRule(
            self,
            "Minute",
            description=f"Looks whether {endpoint_name} is being updated",
            schedule_expression="rate(1 minute)",
            targets=[
                events.CfnRule.TargetProperty(
                    id="golden-requests",
                    arn=function.attr_arn,
                    input=json.dumps(asked),
                    # A minute that was missed is over.
                    retry_policy=events.CfnRule.RetryPolicyProperty(
                        maximum_retry_attempts=0, maximum_event_age_in_seconds=60
                    ),
                )
            ],
        )
        self.permission = functions.CfnPermission(
            self,
            "Permission",
            action="lambda:InvokeFunction",
            function_name=function.ref,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )
        _acknowledge(function, policy, str(stack.resolve(streams)))


def _acknowledge(function: Construct, policy: Construct, streams: str) -> None:
    """To cdk-nag and the auditors' packs."""
    accept = cdk.Acknowledgment
    cdk.Validations.of(policy).acknowledge(
        accept(
            id=f"AwsSolutions-IAM5[Resource::{streams}]",
            reason="Lambda names the streams of this function's own log group",
        )
    )
    for pack in PACKS:
        cdk.Validations.of(policy).acknowledge(
            accept(id=f"{pack}-IAMNoInlinePolicy", reason="it belongs to this role alone")
        )
        for rule, reason in WITHOUT.items():
            cdk.Validations.of(function).acknowledge(accept(id=f"{pack}-{rule}", reason=reason))
