"""The endpoint's alarms: all of them notify, and a composite alarm pages the on-call engineer."""

from collections.abc import Sequence
from functools import cached_property

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.monitoring.first_steps import directions
from infra.constructs.monitoring.signals import Signal, endpoint_signals
from infra.constructs.monitoring.watched_endpoint import Watchable, WatchedEndpoint
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
        endpoint: Watchable,
        alarms: Alarms,
        inform: sns.ITopic,
        page: sns.ITopic | None = None,
    ) -> None:
        """endpoint: The endpoint: of this app, imported, or a `WatchedEndpoint`.
        alarms: Thresholds and window.
        inform: Topic of all notifications. If it is encrypted, CloudWatch must be allowed to use its key.
        page: Topic that pages the on-call engineer. Default: `inform`.
        """
        super().__init__(scope, construct_id)
        watched = endpoint.watched
        if watched.tables is not None:
            watched.tables["alarms"] = self, alarms
        self._make(watched, alarms, inform, page or inform)

    def _make(
        self, endpoint: WatchedEndpoint, alarms: Alarms, inform: sns.ITopic, page: sns.ITopic
    ) -> None:
        if not endpoint.variants:
            raise ValueError(
                f"{self.node.path}: the variants of endpoint {endpoint.name} are unknown; "
                "give from_endpoint_name its variants=[WatchedVariant(…)]"
            )
        self.by_name: dict[str, EndpointAlarm] = {}
        for signal in endpoint_signals(endpoint, alarms):
            of = "" if signal.variant is None else f", variant {signal.variant}"
            alarm = EndpointAlarm(
                self,
                signal.name,
                signal=signal,
                name=f"{endpoint.name}-{signal.name}",
                description=f"{endpoint.name}{of}: {signal.said} {signal.window}. "
                f"{signal.few_samples}{signal.earliest}{directions(signal.kind, alarms.runbook)}",
                actions=[inform.topic_arn],
            )
            if endpoint.resource is not None:
                alarm.alarm.node.add_dependency(endpoint.resource)
            self.by_name[signal.name] = alarm
        broken = [alarm for alarm in self.by_name.values() if alarm.signal.breaks_objective]
        first = min((alarm.signal for alarm in broken), key=lambda signal: signal.earliest_seconds)
        conditions = ", ".join(dict.fromkeys(alarm.signal.said for alarm in broken))
        any_of = " OR ".join(f'ALARM("{alarm.arn}")' for alarm in broken)
        actions = [page.topic_arn]
        self.objective = cloudwatch.CfnCompositeAlarm(
            Construct(self, "Objective"),
            "Resource",
            alarm_name=f"{endpoint.name}-{OBJECTIVE}",
            alarm_description=f"{endpoint.name}: the service objective is broken: {conditions}. "
            f"{first.earliest}{directions(OBJECTIVE, alarms.runbook)}",
            alarm_rule=f"({any_of})",
            alarm_actions=actions,
            ok_actions=actions,
        )

    def of(self, variant: str | None, kind: str) -> EndpointAlarm | None:
        """The alarm of a kind and variant; None if the environment file configures none."""
        return self.by_name.get(kind if variant is None else f"{variant}-{kind}")
