"""The endpoint's alarms: all of them notify, and a composite alarm pages the on-call engineer."""

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.monitoring.first_steps import describe_first_step
from infra.constructs.monitoring.signals import Signal, list_endpoint_signals
from infra.constructs.monitoring.watched_endpoint import Watchable
from infra.parameters.monitoring import Alarms

_COMPARISONS = {
    "above": cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
    "below": cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
}
# Percentiles of few samples are evaluated like others. `ignore` would keep the alarm's state: an alarm
# on a new fleet would never leave INSUFFICIENT_DATA, so that nothing would watch a small canary, and an
# alarm in ALARM would stay there all night.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/percentiles-with-low-samples.html
# (2026-11-22)
FEW_SAMPLES = "evaluate"


class EndpointAlarm(cloudwatch.Alarm):
    """An alarm that fires when its signal has crossed the threshold in its window."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        signal: Signal,
        name: str,
        description: str,
        notify: cloudwatch.IAlarmAction | None = None,
    ) -> None:
        """Create the alarm. `notify` is the action when it fires and when it recovers."""
        super().__init__(
            Construct(scope, construct_id),  # deployed alarms have their logical IDs by this path
            "Resource",
            alarm_name=name,
            alarm_description=description,
            metric=signal.metric,
            threshold=signal.threshold * signal.unit.in_the_metric,
            comparison_operator=_COMPARISONS[signal.fires],
            evaluation_periods=signal.periods,
            datapoints_to_alarm=signal.breaching_periods,
            treat_missing_data=signal.missing,
            evaluate_low_sample_count_percentile=FEW_SAMPLES if signal.percentile else None,
        )
        self.signal = signal
        if notify is not None:
            self.add_alarm_action(notify)
            self.add_ok_action(notify)

    @property
    def line(self) -> cloudwatch.HorizontalAnnotation:
        """Return the threshold as a line of the graph, in the environment file's unit."""
        return cloudwatch.HorizontalAnnotation(
            value=self.signal.threshold, label=f"alarm: {self.signal.condition}"
        )


OBJECTIVE = "objective"


class EndpointAlarms(Construct):
    """All alarms of an endpoint.

    A composite alarm over those that break the service objective pages the on-call engineer.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: Watchable,
        alarms: Alarms,
        inform: sns.ITopic,
        page: sns.ITopic | None = None,
    ) -> None:
        """endpoint: The endpoint, of this app or imported.
        alarms: Thresholds and window.
        inform: Topic of all notifications. If it is encrypted, CloudWatch must be allowed to use its key.
        page: Topic that pages the on-call engineer. Default: `inform`.
        """
        super().__init__(scope, construct_id)
        watched = endpoint.watched
        if watched.tables is not None:
            watched.tables["alarms"] = self, alarms
        if not watched.variants:
            said = f"the variants of endpoint {watched.name} are unknown; import it with"
            call = "Endpoint.from_endpoint_attributes(variants=[…])"
            raise ValueError(f"{self.node.path}: {said} {call}")
        self.by_name: dict[str, EndpointAlarm] = {}
        informs = actions.SnsAction(inform)
        for signal in list_endpoint_signals(watched, alarms):
            of = "" if signal.variant is None else f", variant {signal.variant}"
            alarm = EndpointAlarm(
                self,
                signal.name,
                signal=signal,
                name=f"{watched.name}-{signal.name}",
                description=f"{watched.name}{of}: {signal.condition} {signal.window}. "
                f"{signal.few_samples_note}{signal.earliest_alarm_note}"
                f"{describe_first_step(signal.kind, alarms.runbook)}",
                notify=informs,
            )
            if watched.resource is not None:
                alarm.node.add_dependency(watched.resource)
            self.by_name[signal.name] = alarm
        broken = [alarm for alarm in self.by_name.values() if alarm.signal.breaks_objective]
        first = min((alarm.signal for alarm in broken), key=lambda signal: signal.earliest_seconds)
        conditions = ", ".join(dict.fromkeys(alarm.signal.condition for alarm in broken))
        self.objective = cloudwatch.CompositeAlarm(
            self,
            "Objective",
            composite_alarm_name=f"{watched.name}-{OBJECTIVE}",
            alarm_description=f"{watched.name}: the service objective isn't met: {conditions}. "
            f"{first.earliest_alarm_note}{describe_first_step(OBJECTIVE, alarms.runbook)}",
            alarm_rule=cloudwatch.AlarmRule.any_of(*broken),
        )
        pages = actions.SnsAction(page or inform)
        self.objective.add_alarm_action(pages)
        self.objective.add_ok_action(pages)

    def of(self, variant: str | None, kind: str) -> EndpointAlarm | None:
        """Return the alarm of a kind and variant, or None if it isn't configured.

        If `variant` is None, it is an alarm of the whole endpoint.
        """
        return self.by_name.get(kind if variant is None else f"{variant}-{kind}")
