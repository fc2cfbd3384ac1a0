"""Rules about how often SageMaker publishes the metrics that alarms and scaling use."""

from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.preflight.rule import Findings, Rule

# Period of every alarm and scaling policy of this project.
PERIOD_SECONDS = 60


class MetricsTooRare(Rule):
    """Alarms and scaling evaluate every minute: a minute without a value never counts as breaching.

    With enhanced_metrics this also concerns requests, errors and latency, without it only CPU, memory,
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
                f"with a value every {seconds} s, alarms over consecutive minutes see minutes without one",
                allowed=f"10, 30 or {PERIOD_SECONDS}",
                remedy="lower it",
                reads=("metrics.enhanced_metrics",),
            )
