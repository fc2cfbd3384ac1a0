"""Alarms that look at the new fleet of an update, and take it back."""

from collections.abc import Iterator, Sequence

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.monitoring.alarm_signal import MILLISECONDS, PERCENT, Signal
from infra.constructs.monitoring.endpoint_alarm import EndpointAlarm
from infra.constructs.monitoring.endpoint_metrics import EndpointMetrics
from infra.parameters.alarms import Alarms

ROLLBACK = "rollback"


def name_prefix(endpoint_name: str) -> str:
    """How the names of an endpoint's rollback alarms begin; its roles may describe these."""
    return f"{endpoint_name}-{ROLLBACK}-"


class RollbackAlarms(Construct):
    """p99 latency and 5xx share of every variant, of this configuration alone.

    Another resource for every configuration: CloudWatch keeps an alarm's state when it
    is put again, and one that is in ALARM from the incident would roll back its own fix.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        config_name: str,
        fingerprint: str,
        variants: Sequence[str],
        alarms: Alarms,
        kind: str = "real_time",
    ) -> None:
        super().__init__(scope, construct_id)
        new_fleet = EndpointMetrics(
            endpoint_name=endpoint_name,
            extra_dimensions={"EndpointConfigName": config_name},
            kind=kind,
        )
        short = fingerprint[:8]
        made = [
            EndpointAlarm(
                self,
                f"{signal.name}-{short}",
                signal=signal,
                name=f"{name_prefix(endpoint_name)}{signal.name}-{short}",
                description=f"Takes back an update of {endpoint_name} to configuration {short}: "
                f"{signal.said} in variant {variant}. Fires at the earliest "
                f"{signal.earliest_minutes} min after the first minute that shows it begins. "
                f"Runbook: {alarms.runbook}#{ROLLBACK}",
            )
            for variant in variants
            for signal in _signals(new_fleet, variant, alarms)
        ]
        for one in made:
            _accept_silence(one)
        self.names = [one.alarm.ref for one in made]


def _accept_silence(made: EndpointAlarm) -> None:
    """To auditors' rules, which want an action of the alarm's own."""
    cdk.Validations.of(made.alarm).acknowledge(
        *(
            cdk.Acknowledgment(
                id=f"{pack}-CloudWatchAlarmAction",
                reason="SageMaker reads it and rolls the update back; the event of that is sent to "
                "the alarm topic with its reason",
            )
            for pack in ("NIST.800.53.R5", "HIPAA.Security")
        )
    )


def _signals(metrics: EndpointMetrics, variant: str, alarms: Alarms) -> Iterator[Signal]:
    yield Signal(
        kind="5xx",
        variant=variant,
        what="requests answered 5xx",
        metric=metrics.error_5xx_share(variant),
        threshold=alarms.error_5xx_percent,
        unit=PERCENT,
        minutes=alarms.window_minutes,
    )
    if alarms.p99_latency_ms is not None:
        yield Signal(
            kind="latency",
            variant=variant,
            what="p99 latency",
            metric=metrics.model_latency(variant, "p99"),
            threshold=alarms.p99_latency_ms,
            unit=MILLISECONDS,
            minutes=alarms.window_minutes,
        )
