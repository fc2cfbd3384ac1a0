"""A batch transform job: its model, state machine, schedule, log group, and alarms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.arguments import read_arguments
from infra.catalog.instances import load_instances
from infra.catalog.limits import find_maximum
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.acknowledged import AUDITORS, accept, accept_for, accept_wildcards
from infra.constructs.endpoint.endpoint_logs import choose_removal_policy
from infra.constructs.model.execution_role import (
    ALIAS,
    INLINE,
    ModelDependencies,
    build_log_group_arn,
    build_volume_key_arns,
)
from infra.constructs.model.model import Model, choose_hosting
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarm
from infra.constructs.monitoring.endpoint_dashboard import COLUMNS, Row
from infra.constructs.monitoring.first_steps import FIRST_STEPS, describe_first_step
from infra.constructs.monitoring.signals import Signal
from infra.constructs.monitoring.variant_graphs import make_axis
from infra.constructs.monitoring.watched_endpoint import (
    AlarmMetric,
    build_expression,
    create_period,
)
from infra.parameters.batch.job import BatchJob, find_batch_job
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.finding import suggest_name
from infra.parameters.monitoring import Unit

SYNC = "arn:{partition}:states:::sagemaker:createTransformJob.sync"
PUBLISH = "arn:{partition}:states:::sns:publish"
# Step Functions makes this rule itself, to hear of the end of a job.
# https://docs.aws.amazon.com/step-functions/latest/dg/sagemaker-iam.html (2026-11-28)
EVENTS_RULE = "StepFunctionsGetEventsForSageMakerTransformJobsRule"
# The error with which a job that completed ends the branch that waits to tell that it is late. A Parallel
# state ends when a branch fails, with that branch's error, and stops the others:
# https://docs.aws.amazon.com/step-functions/latest/dg/state-parallel.html (2026-11-28)
COMPLETED = "BatchCompleted"
CAUGHT = {"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure"}
# What it names a log group whose policy it writes; https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
LOG_GROUPS = "/aws/vendedlogs/states/"
# Errors of the API, none of a job that ran: that would only fail again, at the whole price. A name is used
# once, so that a job that was started all the same is not started twice.
RETRY = {
    "ErrorEquals": [
        "SageMaker.AmazonSageMakerException",
        "SageMaker.ResourceLimitExceededException",
        "SageMaker.ThrottlingException",
    ],
    "IntervalSeconds": 60,
    "MaxAttempts": 4,
    "BackoffRate": 2,
}
_UUID_CHARACTERS = 36
_SECONDS_PER_MINUTE = 60
# A day: the alarm of a night is there in the morning, and a failed run publishes one value.
_WINDOW_MINUTES = 1440
# Scheduler's own is a day, after which a nightly run that could not start would meet the next one; its
# retries are as many as it allows. https://docs.aws.amazon.com/scheduler/latest/APIReference/API_RetryPolicy.html
_START_WITHIN_SECONDS, _MOST_RETRIES = 3600, 185
_JOBS = (
    "sagemaker:AddTags", "sagemaker:CreateTransformJob", "sagemaker:DescribeTransformJob",
    "sagemaker:ListTags", "sagemaker:StopTransformJob",
)  # fmt: skip
_DELIVERY = (
    "logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies", "logs:GetLogDelivery", "logs:ListLogDeliveries",
    "logs:PutResourcePolicy", "logs:UpdateLogDelivery",
)  # fmt: skip
_NO_TRACES = "one task that waits for one job: its history says what a trace would"


def describe_job(job: BatchJob, model: Model, scope: Construct) -> dict[str, object]:
    """Return the model, image, and settings for the deployment record, which a rollback needs."""
    hosting = choose_hosting(stack := cdk.Stack.of(scope), job.deployed_placement)
    return {
        "batch": job.name,
        "model": job.batch.model,
        "archive": model.pack(stack).url,
        "image": hosting.image.uri,
        "tensorflow": hosting.tensorflow,
        "model_gib": job.placement.served.model_gib,
        "container": job.settings.model_dump(mode="json", exclude_none=True),
        "job": {choice.name: choice.value for choice in job.choices if choice.value is not None},
    }


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
    settings: Input, output, and instance type of the job. Its `model` is the model's name in
        the container.
    inform: Topic for failures and alarms.
    topic_key: KMS key of the topic, which the state machine may then use.
        Default: the topic has none.
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
        self.job = self._resolve_job(model, settings, volume_key)
        needs = ModelDependencies(
            log_group_arn=build_log_group_arn(stack),
            batch=self.job.batch,
            volume_kms_key=self.job.volume_kms_key,
        )
        hosting = choose_hosting(stack, self.job.deployed_placement)
        self._hosted = model.host(self, "Model", hosting, needs)
        self._model, self._inform, self._topic_key = model, inform, topic_key
        self._rules = role_rules or RoleRules()
        room = find_maximum("TransformJobName") - 1 - _UUID_CHARACTERS
        self.job_prefix = name[:room].rstrip("-")
        """Beginning of the jobs' names."""
        self.model_name = self._hosted.name
        """Name of the job's AWS::SageMaker::Model, which only CloudFormation knows."""
        group_arn = self._create_log_group(log or LogSettings())
        role, policy = self._create_role()
        self.resource = states.CfnStateMachine(
            self,
            "Resource",
            state_machine_name=name,
            role_arn=role.role_arn,
            definition_string=stack.to_json_string(self._build_definition(self.job)),
            logging_configuration=states.CfnStateMachine.LoggingConfigurationProperty(
                level="ALL",
                include_execution_data=True,
                destinations=[
                    states.CfnStateMachine.LogDestinationProperty(
                        cloud_watch_logs_log_group=states.CfnStateMachine.CloudWatchLogsLogGroupProperty(
                            log_group_arn=group_arn
                        )
                    )
                ],
            ),
        )
        self.resource.node.add_dependency(policy)
        accept(self.resource, {"AwsSolutions-SF2": _NO_TRACES})
        self.state_machine_arn = self.resource.attr_arn
        self._create_schedule(self.job)
        self._create_alarms(self.job, runbook)

    def _create_log_group(self, settings: LogSettings) -> str:
        """Create the state machine's log group and return its ARN."""
        group = logs.CfnLogGroup(
            self,
            "Log",
            log_group_name=f"{LOG_GROUPS}{self.name}",
            retention_in_days=settings.retention_days,
            kms_key_id=settings.key.key_arn if settings.key else None,
        )
        group.apply_removal_policy(choose_removal_policy(keep=settings.keep))
        return group.attr_arn

    def _resolve_job(
        self, model: Model, settings: BatchSettings | BatchJob, volume_key: kms.IKey | None
    ) -> BatchJob:
        """Return the job that the settings describe. Raises ValueError for settings that don't fit."""
        if isinstance(settings, BatchJob):
            return settings
        where = self.node.path
        if settings.model != model.name:
            raise ValueError(
                f"{where}: settings: model is {settings.model!r}, and the model's name is {model.name!r}; "
                f"pass BatchSettings(model={model.name!r})"
            )
        if settings.instance_type not in load_instances():
            given, close = (
                settings.instance_type,
                suggest_name(settings.instance_type, load_instances()),
            )
            raise ValueError(
                f"{where}: settings: instance_type: {given!r} isn't an instance type; {close}"
            )
        batch = read_arguments(where, BatchSettings, model.find_unset_settings(settings), settings)
        described = model.described.model_copy(update={"batch": {self.node.id: batch}})
        job = find_batch_job(described, self.node.id)
        assert job is not None  # model and type are known
        return replace(job, volume_kms_key=volume_key.key_arn if volume_key else None)

    def grant_start(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow a principal to start runs."""
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["states:StartExecution"],
            resource_arns=[self.state_machine_arn],
        )

    @property
    def rows(self) -> list[Row]:
        """Return dashboard rows: the alarms, and daily outcomes and longest duration of runs."""
        states = cloudwatch.AlarmStatusWidget(
            title=f"{self.name}: alarms", alarms=[*self.alarms], width=COLUMNS
        )
        ends = [
            _build_daily_metric(*self._metric_source, f"Executions{end}", "Sum")
            for end in ("Succeeded", "Failed", "TimedOut", "Aborted")
        ]
        duration = _build_daily_metric(*self._metric_source, "ExecutionTime", "Maximum")
        longest = build_expression("longest / 60000", {"longest": duration}, "longest run")
        (late,) = (alarm for alarm in self.alarms if alarm.signal.kind == "batch-late")
        took = cloudwatch.GraphWidget(
            title=f"{self.name}: minutes of the longest run, by the day",
            width=COLUMNS // 2,
            left=[longest],
            left_annotations=[late.line],
            left_y_axis=make_axis("min"),
        )
        ended = cloudwatch.GraphWidget(
            title=f"{self.name}: runs by the day",
            width=COLUMNS // 2,
            left=ends,
            left_y_axis=make_axis("runs"),
        )
        return [[states], [ended, took]]

    @property
    def _metric_source(self) -> tuple[str, dict[str, str]]:
        """Return the namespace and dimensions of the state machine's metrics.

        https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
        (2026-11-28)
        """
        return "AWS/States", {"StateMachineArn": self.state_machine_arn}

    def _build_definition(self, job: BatchJob) -> dict[str, Any]:
        """Return the state machine's definition in the Amazon States Language."""
        failed = (
            f"The batch {self.name} failed with {{}}: {{}} First: read the end of its data-log in the "
            "log group /aws/sagemaker/TransformJobs."
        )
        tell = self._build_publish_task(
            "failed", f"States.Format('{failed}', $.failure.Error, $.failure.Cause)"
        )
        completed = {"ErrorEquals": [COMPLETED], "ResultPath": "$.result", "Next": "Succeeded"}
        return {
            "Comment": f"Runs the model {job.batch.model} over {job.batch.input}",
            "StartAt": "Name",
            "States": {
                "Name": {
                    "Type": "Pass",
                    "Parameters": {"run.$": "States.UUID()"},
                    "Next": "Run",
                },
                "Run": {
                    "Type": "Parallel",
                    "Branches": [
                        {"StartAt": "Transform", "States": self._build_transform_states(job)},
                        {"StartAt": "Wait", "States": self._build_late_states(job)},
                    ],
                    "Catch": [completed, {**CAUGHT, "Next": "Tell"}],
                    "Next": "Succeeded",
                },
                "Succeeded": {"Type": "Succeed"},
                "Tell": {**tell, "Catch": [{**CAUGHT, "Next": "Failed"}], "Next": "Failed"},
                "Failed": {
                    "Type": "Fail",
                    "Error": "BatchFailed",
                    "Cause": "The state Transform failed: the history has its error and cause.",
                },
            },
        }

    def _build_transform_states(self, job: BatchJob) -> dict[str, Any]:
        """Return the states that run the job.

        CDK's own task has neither filters nor joins, doesn't retry requests, and waits 60 s for
        one:
        create-transform-job.ts of https://github.com/aws/aws-cdk (2026)
        """
        request = job.build_request(job_name="", model_name=self.model_name)
        request["TransformJobName.$"] = f"States.Format('{self.job_prefix}-{{}}', $.run)"
        del request["TransformJobName"]
        return {
            "Transform": {
                "Type": "Task",
                "Resource": SYNC.format(partition=cdk.Aws.PARTITION),
                "Parameters": request,
                "TimeoutSeconds": job.batch.max_minutes * _SECONDS_PER_MINUTE,
                "Retry": [RETRY],
                "Next": "Completed",
            },
            "Completed": {"Type": "Fail", "Error": COMPLETED, "Cause": "The job completed."},
        }

    def _build_late_states(self, job: BatchJob) -> dict[str, Any]:
        """Return the states that notify the topic of a late run.

        If the message can't be sent, the job continues.
        """
        minutes = job.batch.late_minutes
        late = (
            f"The batch {self.name} is late: its job {self.job_prefix}-{{}} has not ended {minutes} minutes "
            f"after the run began, and is still running. First: {FIRST_STEPS['batch-late']}"
        )
        tell = self._build_publish_task("is late", f"States.Format('{late}', $.run)")
        return {
            "Wait": {"Type": "Wait", "Seconds": minutes * _SECONDS_PER_MINUTE, "Next": "TellLate"},
            "TellLate": {**tell, "Catch": [{**CAUGHT, "Next": "Told"}], "Next": "Told"},
            "Told": {"Type": "Succeed"},
        }

    def _build_publish_task(self, what: str, message: str) -> dict[str, Any]:
        """Return the task that publishes a message, given as an expression, to the topic."""
        return {
            "Type": "Task",
            "Resource": PUBLISH.format(partition=cdk.Aws.PARTITION),
            "Parameters": {
                "TopicArn": self._inform.topic_arn,
                "Subject": f"Batch {self.name} {what}",
                "Message.$": message,
            },
        }

    def _create_role(self) -> tuple[iam.Role, iam.Policy]:
        """Create the state machine's role and its policy.

        The policy allows its own jobs, passing the model's role to SageMaker, the Events rule,
        the topic and its key, log delivery, and the volume key.
        """
        stack, role = cdk.Stack.of(self), self._create_service_role("states", "Role", self)
        # SageMaker writes ARNs in lower case, and IAM compares them as they are.
        names = dict.fromkeys((self.job_prefix.lower(), self.job_prefix))
        jobs = [
            stack.format_arn(
                service="sagemaker", resource="transform-job", resource_name=f"{each}-*"
            )
            for each in names
        ]
        # Those of AWS's page, but for ListTags, which it allows on everything:
        # https://docs.aws.amazon.com/step-functions/latest/dg/sagemaker-iam.html (2026-11-28)
        statements = [
            _build_statement(list(_JOBS), jobs),
            _build_statement(
                ["iam:PassRole"],
                [self._model.role_arn],
                {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
            ),
            _build_statement(
                ["events:DescribeRule", "events:PutRule", "events:PutTargets"],
                [stack.format_arn(service="events", resource="rule", resource_name=EVENTS_RULE)],
            ),
            _build_statement(["sns:Publish"], [self._inform.topic_arn]),
            _build_statement(list(_DELIVERY), ["*"]),
        ]
        if self._topic_key is not None:
            publishing = ["kms:Decrypt", "kms:GenerateDataKey"]
            statements.append(_build_statement(publishing, [self._topic_key.key_arn]))
        why = dict.fromkeys(
            jobs, "each run has a job of its own, whose name ends with a number of its own"
        )
        why["*"] = "the delivery of logs takes no resource"
        if (volume_key := self.job.volume_kms_key) is not None:
            keys = build_volume_key_arns(stack, volume_key)
            why |= dict.fromkeys(keys, "only for an alias: the key behind it may change")
            by_alias = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": [volume_key]}}
            named = by_alias if volume_key.startswith(ALIAS) else {}
            granted = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
            statements.append(_build_statement(["kms:CreateGrant"], keys, {**granted, **named}))
            statements.append(_build_statement(["kms:DescribeKey"], keys, named or None))
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        accept_wildcards(policy, why)
        accept_for(AUDITORS, policy, INLINE)
        return role, policy

    def _create_service_role(
        self, service: str, construct_id: str, boundary: Construct
    ) -> iam.Role:
        """Create a role that a service assumes for this account only.

        `boundary` is the scope of its permissions boundary.
        """
        own = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}}
        return iam.Role(
            self,
            f"{construct_id}{self._rules.suffix}",
            assumed_by=iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=own),
            **self._rules.properties(boundary),
        )

    def _create_schedule(self, job: BatchJob) -> None:
        if job.batch.schedule is None:
            return
        role = self._create_service_role(
            "scheduler", "ScheduleRole", Construct(self, "ScheduleRules")
        )
        policy = iam.Policy(
            self,
            "SchedulePolicy",
            roles=[role],
            statements=[_build_statement(["states:StartExecution"], [self.state_machine_arn])],
        )
        accept_for(AUDITORS, policy, INLINE)
        # A group of its own: Scheduler's metrics are those of a group, and not of a schedule.
        group = scheduler.CfnScheduleGroup(self, "ScheduleGroup", name=self.name)
        schedule = scheduler.CfnSchedule(
            self,
            "Schedule",
            name=self.name,
            group_name=group.ref,
            description=f"Starts the batch {self.name}",
            schedule_expression=job.batch.schedule,
            schedule_expression_timezone=job.batch.timezone,
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

    def _create_alarms(self, job: BatchJob, runbook: str) -> None:
        late, machine = job.batch.late_minutes, self._metric_source
        signals = [
            _build_signal(
                "batch-failed", _build_daily_metric(*machine, "ExecutionsFailed", "Sum"), 0, Unit("", 1),
                "a run failed",
            ),
            _build_signal(
                "batch-late", _build_daily_metric(*machine, "ExecutionTime", "Maximum"), late,
                Unit("min", 60_000),
                f"a run took more than {late} minutes, which its own message told while it ran",
            ),
        ]  # fmt: skip
        if job.batch.schedule is not None:
            # https://docs.aws.amazon.com/scheduler/latest/UserGuide/monitoring-cloudwatch.html (2026-11-28)
            group = ("AWS/Scheduler", {"ScheduleGroup": self.name})
            starts = {
                "refused": _build_daily_metric(*group, "TargetErrorCount", "Sum"),
                "dropped": _build_daily_metric(*group, "InvocationDroppedCount", "Sum"),
            }
            failures = build_expression(
                "FILL(refused, 0) + FILL(dropped, 0)", starts, "starts that failed"
            )
            said = "the schedule could not start a run, and retries for an hour"
            signals.append(_build_signal("batch-unstarted", failures, 0, Unit("", 1), said))
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


class BatchDashboard(cloudwatch.Dashboard):
    """A dashboard of batches without an endpoint. The Region is appended to its `name`."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, batches: Sequence[BatchTransform]
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            dashboard_name=f"{name}-{cdk.Stack.of(scope).region}",
            widgets=[row for batch in batches for row in batch.rows],
        )


def _build_daily_metric(
    namespace: str, dimensions: dict[str, str], name: str, statistic: str
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        statistic=statistic,
        dimensions_map=dimensions,
        period=create_period(_WINDOW_MINUTES * _SECONDS_PER_MINUTE),
    )


def _build_signal(
    kind: str, metric: AlarmMetric, threshold: float, unit: Unit, in_words: str
) -> Signal:
    return Signal(
        kind=kind,
        variant=None,
        what=kind,
        in_words=in_words,
        metric=metric,
        threshold=threshold,
        unit=unit,
        minutes=_WINDOW_MINUTES,
    )


def _build_statement(
    actions: list[str], resources: list[str], conditions: dict[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
