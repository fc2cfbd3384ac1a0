"""One alarm on one signal of an endpoint; it draws its own line on a graph."""

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.constructs.alarm_signal import Signal

_COMPARISONS = {
    "above": cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
    "below": cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
}


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
    ) -> None:
        super().__init__(scope, construct_id)
        self.signal = signal
        self.alarm = cloudwatch.Alarm(
            self,
            "Resource",
            alarm_name=name,
            alarm_description=description,
            metric=signal.metric,
            threshold=signal.threshold * signal.unit.in_the_metric,
            comparison_operator=_COMPARISONS[signal.fires],
            evaluation_periods=signal.minutes,
            datapoints_to_alarm=signal.minutes,
            treat_missing_data=signal.missing,
        )

    @property
    def line(self) -> cloudwatch.HorizontalAnnotation:
        """In the person's unit."""
        return cloudwatch.HorizontalAnnotation(
            value=self.signal.threshold, label=f"alarm: {self.signal.said}"
        )
