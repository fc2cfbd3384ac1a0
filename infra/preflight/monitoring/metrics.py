"""What SageMaker publishes, against what alarms and scaling count."""

from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.preflight.rule import Findings, Rule

# Of every alarm and scaling policy here.
PERIOD_SECONDS = 60


class MetricsTooRare(Rule):
    """Alarms and scaling count by the minute: a minute without a value is no minute above a bound.

    With enhanced_metrics that goes for requests, errors and latency too, without it for CPU, memory,
    disk and GPU.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html
    (MetricPublishFrequencyInSeconds, read 2026-11-22)
    """

    severity = Severity.WARNING
    example = "metrics.publish_seconds = 120"

    def check(self, environment: Environment) -> Findings:
        seconds = environment.metrics.publish_seconds
        if seconds > PERIOD_SECONDS:
            yield self.finding(
                "metrics.publish_seconds",
                f"a value every {seconds} s: alarms over consecutive minutes find minutes without one",
                allowed=f"10, 30 or {PERIOD_SECONDS}",
                remedy="lower it",
                reads=("metrics.enhanced_metrics",),
            )
