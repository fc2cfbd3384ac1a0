"""[metrics]: which metrics SageMaker publishes of the endpoint, and how often."""

from typing import Literal

from infra.parameters.table import Table

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html
# (MetricPublishFrequencyInSeconds, read 2026-11-22)
PublishSeconds = Literal[10, 30, 60, 120, 180, 240, 300]


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
    disk and GPU only; requests, errors and latency stay at 60."""
