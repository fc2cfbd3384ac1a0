"""One alarm on one signal of an endpoint; it draws its own line on a graph."""

from collections.abc import Sequence
from functools import cached_property

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.constructs.monitoring.alarm_signal import Signal
from infra.constructs.monitoring.widget import Line

_COMPARISONS = {"above": "GreaterThanThreshold", "below": "LessThanThreshold"}


class EndpointAlarm(Construct):
    """Fires when the signal has been there for its minutes on end."""

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
        """`actions`: ARNs that are told when it fires and when it is over."""
        super().__init__(scope, construct_id)
        self.signal = signal
        self.alarm = cloudwatch.CfnAlarm(
            # Where CDK's own alarm would have it: deployed alarms keep their logical names.
            Construct(self, "Resource"),
            "Resource",
            alarm_name=name,
            alarm_description=description,
            alarm_actions=actions,
            ok_actions=actions,
            threshold=signal.threshold * signal.unit.in_the_metric,
            comparison_operator=_COMPARISONS[signal.fires],
            evaluation_periods=signal.minutes,
            datapoints_to_alarm=signal.minutes,
            treat_missing_data=signal.missing,
            **signal.metric.in_alarm,
        )

    @cached_property
    def arn(self) -> str:
        return self.alarm.attr_arn

    @property
    def line(self) -> Line:
        """In the person's unit."""
        return Line(value=self.signal.threshold, label=f"alarm: {self.signal.said}")
