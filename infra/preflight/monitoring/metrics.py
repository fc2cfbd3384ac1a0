"""Rules about how often SageMaker publishes the metrics that alarms and scaling use."""

from infra.parameters.finding import Severity
from infra.preflight.rule import Findings, Rule

# Target tracking evaluates metrics at one minute:
# https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
# (2026-11-22)
PERIOD_SECONDS = 60


class MetricsTooRare(Rule):
    """An alarm looks at no less than one value, and target tracking at every minute.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html
    (MetricPublishFrequencyInSeconds, read 2026-11-22)
    """

    # With enhanced_metrics this also concerns requests, errors and latency, without it only CPU,
    # memory, disk and GPU.

    severity = Severity.WARNING
    example = "metrics.publish_seconds = 120"
    allowed = f"10, 30 or {PERIOD_SECONDS}"
    remedy = "lower it"
    reads = ("metrics.enhanced_metrics",)

    def look(self) -> Findings:
        seconds = self.environment.metrics.publish_seconds
        requests = self.environment.metrics.published(self.environment.kind).requests_seconds
        tracked = requests > PERIOD_SECONDS and any(
            scaling.max_rps_per_instance is not None for scaling in self.environment.scaled.values()
        )
        if seconds > PERIOD_SECONDS:
            yield self.finding(
                "metrics.publish_seconds",
                f"with a value every {seconds} s, "
                + ("target tracking sees minutes without one, and " if tracked else "")
                + "an alarm fires minutes later",
            )
