"""A batch transform job: its model, state machine, schedule, log group, and alarms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.arguments import check_kind, read_arguments
from infra.catalog.limits import find_maximum
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.acknowledged import AUDITORS, accept, accept_for, accept_wildcards
from infra.constructs.batch.run_definition import build_definition
from infra.constructs.endpoint.endpoint_logs import build_group_arn, create_log_group
from infra.constructs.model.execution_role import (
    ALIAS,
    INLINE,
    ModelDependencies,
    build_volume_key_arns,
)
from infra.constructs.model.hosting import check_instance_type, choose_hosting
from infra.constructs.model.model import Model
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarm
from infra.constructs.monitoring.endpoint_dashboard import COLUMNS, Row
from infra.constructs.monitoring.first_steps import describe_first_step
from infra.constructs.monitoring.signals import Signal
from infra.constructs.monitoring.variant_graphs import make_axis
from infra.constructs.monitoring.watched_endpoint import build_expression, create_period
from infra.parameters.batch.job import BatchJob, find_batch_job
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.monitoring import Unit
from infra.policy.update import SECONDS_PER_MINUTE

# Step Functions creates this rule itself, to learn of the end of a job.
# https://docs.aws.amazon.com/step-functions/latest/dg/sagemaker-iam.html (2026-11-28)
EVENTS_RULE = "StepFunctionsGetEventsForSageMakerTransformJobsRule"
# SageMaker's log group for all jobs of an account and Region; SageMaker creates it if it is missing.
# https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html (2026-11-28)
TRANSFORM_LOG_GROUP = "/aws/sagemaker/TransformJobs"
# Step Functions writes the policy of log groups with this prefix:
# https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
LOG_GROUPS = "/aws/vendedlogs/states/"
_UUID_CHARACTERS = 36
# A day: an alarm of the night is still in ALARM in the morning, and a failed run publishes one value.
_WINDOW_MINUTES = 1440
# Scheduler's default is a day, after which a nightly run that couldn't start would meet the next one; the
# number of retries is its maximum.
# https://docs.aws.amazon.com/scheduler/latest/APIReference/API_RetryPolicy.html
_START_WITHIN_SECONDS, _MOST_RETRIES = 3600, 185
_JOBS = [
    "sagemaker:AddTags", "sagemaker:CreateTransformJob", "sagemaker:DescribeTransformJob",
    "sagemaker:ListTags", "sagemaker:StopTransformJob",
]  # fmt: skip
_DELIVERY = [
    "logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies", "logs:GetLogDelivery", "logs:ListLogDeliveries",
    "logs:PutResourcePolicy", "logs:UpdateLogDelivery",
]  # fmt: skip
MINUTES = Unit("min", 60_000)  # of a metric in milliseconds
_NO_TRACES = "one task waits for one job; the execution history shows what a trace would"


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """The log group of a state machine."""

    retention_days: int = 30
    """Retention of the lines. Default: 30, an incident and the month's review."""
    key: kms.IKey | None = None
    """KMS key, whose policy lets CloudWatch Logs use it. Default: a key of CloudWatch Logs."""
    keep: bool = False
    """Whether the group is retained when the stack is deleted. Default: False."""


class BatchTransform(Construct):
    """A batch transform job that a schedule, a person, or a pipeline starts.

    Its state machine starts the job with the settings of the model's `job`, waits for it,
    and sends the reason to the topic if it fails. Start it with
    `aws stepfunctions start-execution`, or from the app: `batch.grant_start(function)`.

    name: Name of the state machine and the schedule, and the beginning of the jobs' names;
        at most 64 letters, digits and hyphens. Changing the name replaces the state machine.
    model: The model, for which a separate AWS::SageMaker::Model is created.
    settings: Input, output, and instance type of the job. Its `model` is the name in the container.
    inform: Topic for failures and alarms.
    topic_key: KMS key of the topic, which the state machine may then use. Default: none.
    runbook: Address of the runbook in the alarms' descriptions. Default: docs/runbook.md.
    volume_key: KMS key of the instances' volumes. Default: a temporary key of SageMaker's.
    log: Retention and key of the state machine's log. Default: `LogSettings()`.
    role_rules: IAM path and permissions boundary of the roles. Default: none.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        model: Model,
        settings: BatchSettings | BatchJob,
        inform: sns.ITopic,
        topic_key: kms.IKey | None = None,
        runbook: str = "docs/runbook.md",
        volume_key: kms.IKey | None = None,
        log: LogSettings | None = None,
        role_rules: RoleRules | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name, stack = name, cdk.Stack.of(self)
        check_kind(self.node.path, "model", model=model)
        check_kind(self.node.path, "topic", inform=inform)
        check_kind(self.node.path, "key", topic_key=topic_key, volume_key=volume_key)
        self.job = self._resolve_job(model, settings, volume_key)
        needs = ModelDependencies(
            log_group_arn=build_group_arn(self, TRANSFORM_LOG_GROUP),
            batch=self.job.batch,
            volume_kms_key=self.job.volume_kms_key,
        )
        self._hosting = choose_hosting(stack, self.job.deployed_placement)
        self._model, self._inform, self._topic_key = model, inform, topic_key
        self._rules = role_rules or RoleRules()
        room = find_maximum("TransformJobName") - 1 - _UUID_CHARACTERS
        self.job_prefix = name[:room].rstrip("-")
        """Beginning of the jobs' names."""
        self.model_name = model.host(self, "Model", self._hosting, needs).name
        """Name of the job's AWS::SageMaker::Model, which only CloudFormation knows."""
        self.resource = self._create_state_machine(log or LogSettings())
        accept(self.resource, {"AwsSolutions-SF2": _NO_TRACES})
        self.state_machine_arn = self.resource.attr_arn
        # https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html (2026-11-28)
        self._metric_source = "AWS/States", {"StateMachineArn": self.state_machine_arn}
        if self.job.batch.schedule is not None:
            self._create_schedule(self.job.batch.schedule)
        self._create_alarms(runbook)

    @property
    def record(self) -> dict[str, object]:
        """Return the model, image, and settings for the deployment record, which a rollback needs."""
        job, hosting = self.job, self._hosting
        return {
            "batch": job.name,
            "model": job.batch.model,
            "archive": self._model.pack(cdk.Stack.of(self)).url,
            "image": hosting.image.uri,
            "tensorflow": hosting.tensorflow,
            "model_gib": job.placement.served.model_gib,
            "container": job.settings.model_dump(mode="json", exclude_none=True),
            "job": {
                choice.name: choice.value for choice in job.choices if choice.value is not None
            },
        }

    def _create_state_machine(self, settings: LogSettings) -> states.CfnStateMachine:
        """Create the state machine with its log group and role."""
        group, key_arn = f"{LOG_GROUPS}{self.name}", settings.key.key_arn if settings.key else None
        log = create_log_group(
            self, group, days=settings.retention_days, key_arn=key_arn, keep=settings.keep
        )
        role, policy = self._create_role()
        definition = build_definition(
            self.name, self.job, job_prefix=self.job_prefix, model_name=self.model_name,
            topic_arn=self._inform.topic_arn,
        )  # fmt: skip
        machine = states.CfnStateMachine
        destination = machine.CloudWatchLogsLogGroupProperty(log_group_arn=log.attr_arn)
        resource = machine(
            self,
            "Resource",
            state_machine_name=self.name,
            role_arn=role.role_arn,
            definition_string=cdk.Stack.of(self).to_json_string(definition),
            logging_configuration=machine.LoggingConfigurationProperty(
                level="ALL",
                include_execution_data=True,
                destinations=[
                    machine.LogDestinationProperty(cloud_watch_logs_log_group=destination)
                ],
            ),
        )
        resource.node.add_dependency(policy)
        return resource

    def _resolve_job(
        self, model: Model, settings: BatchSettings | BatchJob, volume_key: kms.IKey | None
    ) -> BatchJob:
        """Return the job that the settings describe. Raises ValueError for settings that don't fit."""
        if isinstance(settings, BatchJob):
            return settings
        where = self.node.path
        if settings.model != model.name:
            raise ValueError(
                f"{where}: settings: model is {settings.model!r}, but the model's name is {model.name!r}; "
                f"pass BatchSettings(model={model.name!r})"
            )
        check_instance_type(f"{where}: settings", settings.instance_type)
        batch = read_arguments(where, BatchSettings, model.find_unset_settings(settings), settings)
        described = model.described.model_copy(update={"batch": {self.node.id: batch}})
        job = find_batch_job(described, self.node.id)
        assert job is not None  # model and type are known
        return replace(job, volume_kms_key=volume_key.key_arn if volume_key else None)

    def grant_start(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow a principal to start runs."""
        start, arns = ["states:StartExecution"], [self.state_machine_arn]
        return iam.Grant.add_to_principal(grantee=grantee, actions=start, resource_arns=arns)

    @property
    def rows(self) -> list[Row]:
        """Return dashboard rows: the alarms, and daily outcomes and longest duration of runs."""
        title = f"{self.name}: alarms"
        status = cloudwatch.AlarmStatusWidget(title=title, alarms=[*self.alarms], width=COLUMNS)
        ends = [
            _build_daily_metric(*self._metric_source, f"Executions{end}", "Sum")
            for end in ("Succeeded", "Failed", "TimedOut", "Aborted")
        ]
        duration = _build_daily_metric(*self._metric_source, "ExecutionTime", "Maximum")
        longest = build_expression("longest / 60000", {"longest": duration}, "longest run")
        (late,) = (alarm for alarm in self.alarms if alarm.signal.kind == "batch-late")
        graphs = [
            cloudwatch.GraphWidget(
                title=f"{self.name}: {what} by the day",
                width=COLUMNS // 2,
                left=shown,
                left_annotations=lines,
                left_y_axis=make_axis(unit),
            )
            for what, unit, shown, lines in (
                ("runs", "runs", ends, None),
                ("minutes of the longest run,", "min", [longest], [late.line]),
            )
        ]
        return [[status], graphs]

    def _create_role(self) -> tuple[iam.Role, iam.Policy]:
        """Create the state machine's role and its policy."""
        stack, role = cdk.Stack.of(self), self._create_service_role("states", "Role", self)
        # SageMaker writes ARNs in lowercase, and IAM compares case-sensitively.
        names = dict.fromkeys((self.job_prefix.lower(), self.job_prefix))
        place = f"arn:{stack.partition}:sagemaker:{stack.region}:{stack.account}"
        jobs = [f"{place}:transform-job/{each}-*" for each in names]
        # As on AWS's page, except that it allows ListTags on everything:
        # https://docs.aws.amazon.com/step-functions/latest/dg/sagemaker-iam.html (2026-11-28)
        rule = stack.format_arn(service="events", resource="rule", resource_name=EVENTS_RULE)
        to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
        allowed: list[tuple[list[str], list[str], dict[str, Any] | None]] = [
            (_JOBS, jobs, None),
            (["iam:PassRole"], [self._model.role_arn], to_sagemaker),
            (["events:DescribeRule", "events:PutRule", "events:PutTargets"], [rule], None),
            (["sns:Publish"], [self._inform.topic_arn], None),
            (_DELIVERY, ["*"], None),
        ]
        if self._topic_key is not None:
            key_arns = [self._topic_key.key_arn]
            allowed.append((["kms:Decrypt", "kms:GenerateDataKey"], key_arns, None))
        why = dict.fromkeys(jobs, "each run has its own job, whose name ends with a unique ID")
        why["*"] = "log delivery actions don't support resource-level permissions"
        if (volume_key := self.job.volume_kms_key) is not None:
            keys = build_volume_key_arns(stack, volume_key)
            why |= dict.fromkeys(keys, "only for an alias, because its target key may change")
            by_alias = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": [volume_key]}}
            named = by_alias if volume_key.startswith(ALIAS) else {}
            granted = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
            allowed.append((["kms:CreateGrant"], keys, {**granted, **named}))
            allowed.append((["kms:DescribeKey"], keys, named or None))
        statements = [
            iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
            for actions, resources, conditions in allowed
        ]
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        accept_wildcards(policy, why)
        accept_for(AUDITORS, policy, INLINE)
        return role, policy

    def _create_service_role(self, service: str, construct_id: str, scope: Construct) -> iam.Role:
        """Create a role that a service assumes for this account only.

        `scope` is that of its permissions boundary.
        """
        own = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}}
        return iam.Role(
            self,
            f"{construct_id}{self._rules.suffix}",
            assumed_by=iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=own),
            **self._rules.properties(scope),
        )

    def _create_schedule(self, expression: str) -> None:
        rules = Construct(self, "ScheduleRules")
        role = self._create_service_role("scheduler", "ScheduleRole", rules)
        start = iam.PolicyStatement(
            actions=["states:StartExecution"], resources=[self.state_machine_arn]
        )
        policy = iam.Policy(self, "SchedulePolicy", roles=[role], statements=[start])
        accept_for(AUDITORS, policy, INLINE)
        # A separate group, because Scheduler publishes metrics by group, not by schedule.
        group = scheduler.CfnScheduleGroup(self, "ScheduleGroup", name=self.name)
        schedule = scheduler.CfnSchedule(
            self,
            "Schedule",
            name=self.name,
            group_name=group.ref,
            description=f"Starts the batch {self.name}",
            schedule_expression=expression,
            schedule_expression_timezone=self.job.batch.timezone,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=self.state_machine_arn,
                role_arn=role.role_arn,
                input="{}",
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=_START_WITHIN_SECONDS,
                    maximum_retry_attempts=_MOST_RETRIES,
                ),
            ),
        )
        schedule.node.add_dependency(policy)

    def _create_alarms(self, runbook: str) -> None:
        late, machine, count = self.job.batch.late_minutes, self._metric_source, Unit("", 1)
        failed = _build_daily_metric(*machine, "ExecutionsFailed", "Sum")
        longest = _build_daily_metric(*machine, "ExecutionTime", "Maximum")
        slow = f"a run took more than {late} minutes; a separate message reported it during the run"

        def build(kind: str, **given: Any) -> Signal:
            return Signal(kind=kind, variant=None, minutes=_WINDOW_MINUTES, **given)

        signals = [
            build("batch-failed", in_words="a run failed", metric=failed, threshold=0, unit=count),
            build("batch-late", in_words=slow, metric=longest, threshold=late, unit=MINUTES),
        ]
        if self.job.batch.schedule is not None:
            # https://docs.aws.amazon.com/scheduler/latest/UserGuide/monitoring-cloudwatch.html (2026-11-28)
            group = ("AWS/Scheduler", {"ScheduleGroup": self.name})
            starts = {
                "refused": _build_daily_metric(*group, "TargetErrorCount", "Sum"),
                "dropped": _build_daily_metric(*group, "InvocationDroppedCount", "Sum"),
            }
            filled, label = "FILL(refused, 0) + FILL(dropped, 0)", "starts that failed"
            failures = build_expression(filled, starts, label)
            said = "the schedule could not start a run; it retries for an hour"
            kind = "batch-unstarted"
            signals.append(build(kind, in_words=said, metric=failures, threshold=0, unit=count))
        informs = actions.SnsAction(self._inform)
        self.alarms: Sequence[EndpointAlarm] = tuple(
            EndpointAlarm(
                self,
                signal.kind,
                signal=signal,
                name=f"{self.name}-{signal.kind}",
                description=f"{self.name}: {signal.condition}. It stays in ALARM for a day. "
                f"{describe_first_step(signal.kind, runbook)}",
                notify=informs,
            )
            for signal in signals
        )


def _build_daily_metric(
    namespace: str, dimensions: dict[str, str], name: str, statistic: str
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        statistic=statistic,
        dimensions_map=dimensions,
        period=create_period(_WINDOW_MINUTES * SECONDS_PER_MINUTE),
    )
