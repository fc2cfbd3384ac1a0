"""EventBridge Scheduler: schedules that start state machines and transform jobs on the clock.

Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets.html,
managing-schedule-context-attributes.html and monitoring-cloudwatch.html next to it (2026-11-28).
A flexible window is ignored: a schedule fires when it is due. A call that its target rejects
isn't retried.
"""

import json
import sys
import uuid
from datetime import UTC, datetime
from typing import Any

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError
from moto.scheduler import urls
from moto.scheduler.models import Schedule, scheduler_backends
from moto.scheduler.responses import EventBridgeSchedulerResponse

from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.errors import ValidationError
from servable_local.aws.loopback import Access, Loopback, Regions
from servable_local.aws.resources.resource_type import lower_first_letters
from servable_scaling.alarms.query import Metric
from servable_scaling.schedule import ActionSchedule, ScheduleError

# Universal targets that are called: service and operation of boto3.
_UNIVERSAL = {
    "arn:aws:scheduler:::aws-sdk:sagemaker:createTransformJob": ("sagemaker", "CreateTransformJob"),
    "arn:aws:scheduler:::aws-sdk:sfn:startExecution": ("stepfunctions", "StartExecution"),
}


def install() -> None:
    """Handle requests about schedules here. Idempotent."""
    urls.url_paths.update({"{0}/schedules/(?P<name>[^/]+)$": SchedulerApi.dispatch})


def _is_state_machine(arn: str) -> bool:
    return arn.split(":")[2:3] == ["states"] and ":stateMachine:" in arn


class SchedulerApi(EventBridgeSchedulerResponse):
    """The API of schedules, which rejects those that wouldn't fire; moto stores the others."""

    def _check_schedule(self) -> None:
        target, zone = self._get_param("Target"), self._get_param("ScheduleExpressionTimezone")
        if not _is_state_machine(target["Arn"]) and target["Arn"] not in _UNIVERSAL:
            raise NotImplementedError(f"schedules of {target['Arn']} do not fire here")
        expression = self._get_param("ScheduleExpression")
        try:
            ActionSchedule(expression, time_zone=zone, created=datetime(2000, 1, 1))
        except (ScheduleError, LookupError, OSError) as error:
            raise ValidationError(f"Invalid Schedule Expression: {error}") from None

    def create_schedule(self) -> str:
        self._check_schedule()
        return str(super().create_schedule())

    def update_schedule(self) -> str:
        self._check_schedule()
        return str(super().update_schedule())


def fire_schedules(access: Access, cloudwatches: Regions[CloudWatch], minute: datetime) -> None:
    """Call the targets of all schedules due in the minute that begins, in every account."""
    for account, regions in list(scheduler_backends.items()):
        for region, backend in list(regions.items()):
            aws = Loopback(access, account=account, region=region)
            for group in list(backend.schedule_groups.values()):
                for schedule in list(group.schedules.values()):
                    if schedule.state == "ENABLED" and _is_due(schedule, minute):
                        metrics = cloudwatches.provide_service(account, region).metrics
                        of_group = {"ScheduleGroup": group.name}
                        for name in _call_target(aws, schedule, minute):
                            metric = Metric.from_dimensions("AWS/Scheduler", name, of_group)
                            metrics.add(metric, 1, unit="Count", at=minute)


def _is_due(schedule: Schedule, minute: datetime) -> bool:
    return ActionSchedule(
        schedule.schedule_expression,
        time_zone=schedule.schedule_expression_timezone,
        start=_parse_moment(schedule.start_date),
        end=_parse_moment(schedule.end_date),
        created=_parse_moment(schedule.creation_date) or minute,
    ).is_due(minute)


def _parse_moment(seconds: Any) -> datetime | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(float(seconds), UTC).replace(tzinfo=None)


def _call_target(aws: Loopback, schedule: Schedule, minute: datetime) -> list[str]:
    """Call the target. Return the metrics of the schedule's group that count this."""
    target, execution = schedule.target, str(uuid.uuid4())
    text = target.get("Input") or "{}"
    values = {"execution-id": execution, "schedule-arn": schedule.arn, "attempt-number": "1"}
    values["scheduled-time"] = f"{minute:%Y-%m-%dT%H:%M:%SZ}"
    for name, value in values.items():
        text = text.replace(f"<aws.scheduler.{name}>", value)
    if _is_state_machine(target["Arn"]):
        service, operation = "stepfunctions", "StartExecution"
        given = {"stateMachineArn": target["Arn"], "input": text, "name": execution}
    else:
        service, operation = _UNIVERSAL[target["Arn"]]
        given = json.loads(text)
        if service == "stepfunctions":  # a universal target's names are in capitals
            given = lower_first_letters(given)
    try:
        getattr(aws.client(service), xform_name(operation))(**given)
    except (BotoCoreError, ClientError) as error:
        print(f"the schedule {schedule.arn} failed: {error}", file=sys.stderr)
        return ["InvocationAttemptCount", "TargetErrorCount", "InvocationDroppedCount"]
    return ["InvocationAttemptCount"]
