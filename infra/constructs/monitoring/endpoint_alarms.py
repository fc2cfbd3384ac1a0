"""The endpoint's alarms: all of them notify, and a composite alarm pages the on-call engineer."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.monitoring.signals import Signal, Unit, queue_signals, variant_signals
from infra.constructs.monitoring.watched_endpoint import WatchedEndpoint
from infra.constructs.monitoring.widget import Line
from infra.parameters.alarms import Alarms

_COMPARISONS = {"above": "GreaterThanThreshold", "below": "LessThanThreshold"}


class EndpointAlarm(Construct):
    """An alarm that fires when its signal has crossed the threshold in its window."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        signal: Signal,
        name: str,
        description: str,
        actions: Sequence[str] | None = None,
    ) -> None:
        """`actions` are ARNs that are notified when the alarm fires and when it recovers."""
        super().__init__(scope, construct_id)
        self.signal = signal
        self.alarm = cloudwatch.CfnAlarm(
            # The id of CDK's own alarm construct, so that deployed alarms keep their logical ids.
            Construct(self, "Resource"),
            "Resource",
            alarm_name=name,
            alarm_description=description,
            alarm_actions=actions,
            ok_actions=actions,
            threshold=signal.threshold * signal.unit.in_the_metric,
            comparison_operator=_COMPARISONS[signal.fires],
            evaluation_periods=signal.periods,
            datapoints_to_alarm=signal.breaching,
            treat_missing_data=signal.missing,
            **signal.metric.in_alarm,
        )

    @cached_property
    def arn(self) -> str:
        return self.alarm.attr_arn

    @property
    def line(self) -> Line:
        """The threshold as a line of the graph, in the file's unit."""
        return Line(value=self.signal.threshold, label=f"alarm: {self.signal.said}")


OBJECTIVE = "objective"


class EndpointAlarms(Construct):
    """All alarms. A composite over those that break the service objective pages the on-call engineer."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: WatchedEndpoint,
        alarms: Alarms,
        inform: sns.ITopic,
        page: sns.ITopic | None = None,
    ) -> None:
        """`page` None means that the page goes to the topic of all notifications."""
        super().__init__(scope, construct_id)
        self._endpoint = endpoint
        self._alarms = alarms
        self._inform = [inform.topic_arn]
        signals = [
            *(
                signal
                for variant in endpoint.variants
                for signal in variant_signals(endpoint.metrics, variant, alarms)
            ),
            *queue_signals(endpoint.metrics, alarms),
            *([self._refused()] if endpoint.log_is_counted else []),
        ]
        self.by_name: Mapping[str, EndpointAlarm] = {
            signal.name: self._watch(signal) for signal in signals
        }
        self.objective = self._objective([page.topic_arn] if page else self._inform)

    def of(self, variant: str | None, kind: str) -> EndpointAlarm | None:
        """The alarm of a kind and variant; None if the environment file configures none."""
        return self.by_name.get(kind if variant is None else f"{variant}-{kind}")

    def _refused(self) -> Signal:
        return Signal(
            kind="queue-refused",
            variant=None,
            what="requests a minute turned away by a full queue",
            metric=self._endpoint.metrics.counted_in_log("RefusedRequests"),
            threshold=self._alarms.refused_per_minute,
            unit=Unit("", 1),
            minutes=self._alarms.window_minutes,
        )

    def _watch(self, signal: Signal) -> EndpointAlarm:
        of = "" if signal.variant is None else f", variant {signal.variant}"
        alarm = EndpointAlarm(
            self,
            signal.name,
            signal=signal,
            name=f"{self._endpoint.name}-{signal.name}",
            description=f"{self._endpoint.name}{of}: {signal.said} {signal.window}. "
            f"{signal.few_samples}{self._ending(signal, signal.kind)}",
            actions=self._inform,
        )
        if self._endpoint.resource is not None:
            alarm.alarm.add_resource_dependency(self._endpoint.resource)
        return alarm

    def _objective(self, page: Sequence[str]) -> cloudwatch.CfnCompositeAlarm:
        broken = [one for one in self.by_name.values() if one.signal.breaks_objective]
        first = min((one.signal for one in broken), key=lambda signal: signal.earliest_seconds)
        asked = ", ".join(dict.fromkeys(one.signal.said for one in broken))
        any_of = " OR ".join(f'ALARM("{one.arn}")' for one in broken)
        return cloudwatch.CfnCompositeAlarm(
            Construct(self, "Objective"),
            "Resource",
            alarm_name=f"{self._endpoint.name}-{OBJECTIVE}",
            alarm_description=f"{self._endpoint.name}: the service objective is broken: {asked}. "
            + self._ending(first, OBJECTIVE),
            alarm_rule=f"({any_of})",
            alarm_actions=page,
            ok_actions=page,
        )

    def _ending(self, first: Signal, kind: str) -> str:
        return f"{first.earliest}Runbook: {self._alarms.runbook}#{kind}"
