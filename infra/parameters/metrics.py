"""[metrics]: which metrics SageMaker publishes of the endpoint, and how often."""

import math
from dataclasses import dataclass
from typing import Literal

from infra.parameters.table import Table
from infra.policy.hosting import EndpointKind

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html
# (MetricPublishFrequencyInSeconds, read 2026-11-22)
PublishSeconds = Literal[10, 30, 60, 120, 180, 240, 300]


_DEFAULT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Published:
    """Intervals in which an endpoint's metrics are published, as alarms and dashboards look at them."""

    requests_seconds: int = _DEFAULT_SECONDS
    """Seconds between two values of requests, errors and latency."""
    utilization_seconds: int = _DEFAULT_SECONDS
    """Seconds between two values of CPU, memory, disk and GPU."""
    by_instance: bool = False
    """Whether each instance, and each of its GPUs, has metrics of its own."""

    def window_minutes(self, minutes: int) -> int:
        """The window of an alarm on requests: `minutes`, rounded up to whole values."""
        return math.ceil(60 * minutes / self.requests_seconds) * self.requests_seconds // 60


BY_THE_MINUTE = Published()


class Metrics(Table):
    """Always written into the endpoint configuration, because SageMaker's default changed on
    17 June 2026. A change of these keys replaces the configuration and with it the fleet.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-detailed-observability-getting-started.html
    (read 2026-11-22)
    """

    detailed_observability: bool = False
    """true: SageMaker also collects OpenTelemetry metrics of instances, GPUs and the container
    (from /metrics on its port 8080), which are queried with PromQL. Alarms and the dashboard of
    this project read none of them."""
    enhanced_metrics: bool = False
    """true: CloudWatch metrics are also published for each instance (dimension InstanceId)."""
    publish_seconds: PublishSeconds = 60
    """Seconds between two values of a metric. Without enhanced_metrics it applies to CPU, memory,
    disk and GPU only; requests, errors and latency stay at 60. Alarms follow it: below 60 they are
    high-resolution alarms, which cost more."""

    def published(self, kind: EndpointKind) -> Published:
        """Intervals in which an endpoint of this kind publishes its metrics.

        Enhanced metrics are documented for real-time endpoints alone, and utilization where there are
        instances: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch-enhanced-metrics.html
        (2026-11-22)
        """
        enhanced = self.enhanced_metrics and kind.name == "real_time"
        return Published(
            requests_seconds=self.publish_seconds if enhanced else _DEFAULT_SECONDS,
            utilization_seconds=self.publish_seconds if kind.has_instances else _DEFAULT_SECONDS,
            by_instance=enhanced,
        )
