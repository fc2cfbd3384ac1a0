"""Sends golden requests while an endpoint is updated.

The rollback alarms can then evaluate an update without other traffic.
"""

import base64
import json
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as functions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.access.role_rules import RoleRules
from infra.constructs.acknowledged import AUDITORS, accept_for, accept_wildcards
from infra.constructs.endpoint.endpoint_base import build_endpoint_arns
from infra.constructs.endpoint.endpoint_logs import build_group_arn, create_log_group
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarm
from infra.constructs.monitoring.first_steps import describe_first_step
from infra.constructs.monitoring.signals import Signal
from infra.constructs.monitoring.watched_endpoint import PERIOD_SECONDS, create_period
from infra.parameters.monitoring import Unit
from infra.parameters.rollout import GoldenRequests

CODE = Path(__file__).resolve().parents[2] / "functions" / "golden_sender.py"
NAMED_BY_LAMBDA = "Lambda chooses the stream names in this function's log group"
WITHOUT = {
    "LambdaConcurrency": "one short call a minute; a reservation would reduce the account's concurrency",
    "LambdaDLQ": "a missed minute doesn't matter: the next one checks again",
    "LambdaInsideVPC": "it calls two AWS APIs and needs nothing in a VPC",
}


class GoldenSender(Construct):
    """A function that runs every minute and, while the endpoint updates, sends golden requests."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        golden: GoldenRequests,
        body: bytes,
        inform: sns.ITopic,
        runbook: str,
        roles: RoleRules,
        log_kms_key_arn: str | None = None,
        keep_log: bool = False,
    ) -> None:
        """Create the function, the rule that runs it every minute, and its alarm.

        `endpoint_name` is a literal, because the function must exist before the endpoint's update.
        """
        super().__init__(scope, construct_id)
        self._endpoint_name = endpoint_name
        self._log_name = f"/aws/lambda/{endpoint_name}-golden-requests"
        function = self._create_function(roles, log_kms_key_arn, keep_log)
        self._add_alarm(function, inform, runbook)
        request = {
            "endpoint": endpoint_name,
            "body": base64.b64encode(body).decode(),
            "content_type": golden.request_content_type,
            "per_minute": golden.per_minute,
        }
        # A missed minute isn't repeated.
        retry = events.CfnRule.RetryPolicyProperty(
            maximum_retry_attempts=0, maximum_event_age_in_seconds=60
        )
        target = events.CfnRule.TargetProperty(
            id="golden-requests",
            arn=function.attr_arn,
            input=json.dumps(request),
            retry_policy=retry,
        )
        rule = events.CfnRule(
            self,
            "Minute",
            description=f"Checks whether {endpoint_name} is being updated",
            schedule_expression="rate(1 minute)",
            targets=[target],
        )
        functions.CfnPermission(
            self,
            "Permission",
            action="lambda:InvokeFunction",
            function_name=function.ref,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )

    def _add_alarm(self, function: functions.CfnFunction, inform: sns.ITopic, runbook: str) -> None:
        """Add an alarm on the function's errors, which the fleet's rollback alarms don't see.

        An error is counted if the function raises, times out, or isn't started.
        https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html (2026-11-22)
        """
        signal = Signal(
            kind="golden-requests",
            variant=None,
            in_words="golden requests cannot be sent, or the live fleet fails them",
            metric=cloudwatch.Metric(
                namespace="AWS/Lambda",
                metric_name="Errors",
                statistic="Sum",
                dimensions_map={"FunctionName": function.ref},
                period=create_period(PERIOD_SECONDS),
            ),
            threshold=0,
            unit=Unit("", 1),
            minutes=1,
        )
        EndpointAlarm(
            self,
            "Unsent",
            signal=signal,
            name=f"{self._endpoint_name}-{signal.kind}",
            description=f"{self._endpoint_name}: {signal.condition}, so an update without other traffic "
            f"isn't watched. The function's log has the reason: {self._log_name}. "
            f"{describe_first_step(signal.kind, runbook)}",
            notify=actions.SnsAction(inform),
        )

    def _create_function(
        self, roles: RoleRules, log_kms_key_arn: str | None, keep_log: bool
    ) -> functions.CfnFunction:
        log = create_log_group(
            self, self._log_name, days=30, key_arn=log_kms_key_arn, keep=keep_log
        )
        functions_service = iam.ServicePrincipal("lambda.amazonaws.com")
        role = iam.Role(self, "Role", assumed_by=functions_service, **roles.properties(self))
        policy = self._create_policy(role)
        function = functions.CfnFunction(
            self,
            "Function",
            description=f"Invokes {self._endpoint_name} while it is being updated",
            # https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html
            runtime="python3.14",
            handler="index.handler",
            code=functions.CfnFunction.CodeProperty(zip_file=CODE.read_text(encoding="utf-8")),
            role=role.role_arn,
            # Importing boto3 takes memory, and Lambda gives CPU in proportion to memory.
            memory_size=256,
            timeout=120,  # a minute of requests, and the last one's sixty seconds
            logging_config=functions.CfnFunction.LoggingConfigProperty(log_group=log.ref),
        )
        function.node.add_dependency(policy)
        accept_for(AUDITORS, function, WITHOUT)
        return function

    def _create_policy(self, role: iam.Role) -> iam.Policy:
        streams = build_group_arn(self, f"{self._log_name}:log-stream:*")
        endpoint = build_endpoint_arns(cdk.Stack.of(self), self._endpoint_name)
        asks = ["sagemaker:DescribeEndpoint", "sagemaker:InvokeEndpoint"]
        writes = ["logs:CreateLogStream", "logs:PutLogEvents"]
        statements = [
            iam.PolicyStatement(actions=asks, resources=endpoint),
            iam.PolicyStatement(actions=writes, resources=[streams]),
        ]
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        accept_wildcards(policy, {streams: NAMED_BY_LAMBDA})
        accept_for(AUDITORS, policy, {"IAMNoInlinePolicy": "it belongs to this role alone"})
        return policy
