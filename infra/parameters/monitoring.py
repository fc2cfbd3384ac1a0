"""[alarms] and [metrics]: thresholds, who is notified, and which metrics SageMaker publishes."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from infra.parameters.table import OR_TOKEN, UNIQUE, KmsKeyArn, Table
from infra.policy.hosting import EndpointKind

Milliseconds = Annotated[
    float, Field(gt=0, le=60_000)
]  # InvokeEndpoint answers within 60 s or fails
Share = Annotated[float, Field(gt=0, lt=100)]
# CloudWatch looks back over at most a day at a period of one minute.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
Minutes = Annotated[int, Field(ge=1, le=1440)]

Address = Annotated[
    str,
    Field(pattern=r"^([^@\s]+@[^@\s]+\.[^@\s]+|https://[^\s@/]+(/[^\s]*)?)$", max_length=320),
    OR_TOKEN,
]


class Alarms(Table):
    """Every alarm notifies. A composite of the latency and 5xx alarms, "the objective is broken", pages:
    it wakes the on-call engineer."""

    p50_latency_ms: Milliseconds | None = None
    """Alarm threshold of the median ModelLatency, in milliseconds. If omitted, there is no such
    alarm: only you know the objective."""
    p90_latency_ms: Milliseconds | None = None
    """Alarm threshold of the p90 ModelLatency, in milliseconds. If omitted, there is no such alarm."""
    p99_latency_ms: Milliseconds | None = None
    """Alarm threshold of the p99 ModelLatency, in milliseconds. If omitted, there is no such alarm.
    The alarm also rolls back an update."""
    overhead_latency_ms: Milliseconds = 500.0
    """Alarm threshold of the mean OverheadLatency, the time that SageMaker itself adds to a request.
    Tens of milliseconds are usual; 500 means throttling or network faults."""
    error_4xx_percent: Share | None = None
    """Percentage of requests answered with 4xx. If omitted, there is no such alarm: only you know how
    many caller errors are usual. It also rolls back an update whose new fleet exceeds the old
    one's percentage by as much (rollout.rollback_on_4xx)."""
    error_5xx_percent: Share = 1.0
    """Percentage of requests answered with 5xx. 1 % is above what restarts and retries cause. The
    alarm also rolls back an update."""
    model_error_percent: Share | None = None
    """Percentage of requests that the container did not answer with 2xx: 4xx, 5xx, broken connections
    and timeouts. If omitted, there is no such alarm. It also rolls back an update, as
    error_4xx_percent does."""
    cpu_percent: Share = 90.0
    """Mean CPU utilization of the instances, in percent of all their vCPUs. Above 90 requests wait for
    each other; scaling should have added instances before."""
    memory_percent: Share = 90.0
    """Memory utilization of the fullest instance, in percent. Above 90 the kernel soon kills a process."""
    disk_percent: Share = 80.0
    """Disk utilization of the fullest instance, in percent. Only what the code writes fills the disk:
    80 leaves time to find the cause."""
    gpu_percent: Share = 95.0
    """Mean utilization of all GPUs of the instances, in percent. A GPU is meant to be busy; above 95
    requests queue for it."""
    gpu_memory_percent: Share | None = None
    """GPU memory utilization of the fullest instance, in percent. If omitted, there is no such alarm:
    TensorFlow takes nearly all of the memory at start."""
    no_traffic_minutes: Minutes | None = None
    """Minutes without any request. If omitted, there is no such alarm: only you know whether nights
    without traffic are usual."""
    oldest_request_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    """Age of the oldest request in the queue of [asynchronous], in minutes. If omitted, there is no
    such alarm: only you know how long answers may take."""
    async_failures_per_minute: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    """Requests per minute to an [asynchronous] endpoint that fail, that expire in its queue, or whose
    notification fails; each has its own alarm. With 0 a single failure alarms, because no caller
    waits for the answer and notices it."""
    at_max_minutes: Minutes = 10
    """Minutes that a scaled variant has been at max_instances: from then on more traffic means slower
    answers. 10 is twice what a new instance needs."""
    refused_per_minute: Annotated[float, Field(gt=0, le=1_000_000)] = 10.0
    """Requests per minute that the container rejects because its queue is full (429, or 503 of the
    model server). A few are a burst."""
    window_minutes: Annotated[int, Field(ge=1, le=60)] = 3
    """Consecutive minutes that a threshold must be crossed; a single bad minute pages nobody."""
    notify: list[Address] = Field(default=[], json_schema_extra=UNIQUE)
    """E-mail addresses and https URLs that receive every notification; each must confirm its
    subscription once. If empty, the topic has no subscribers yet."""
    page: list[Address] = Field(default=[], json_schema_extra=UNIQUE)
    """E-mail addresses and https URLs (for example of PagerDuty) that page the on-call engineer when
    the service objective is broken, and receive nothing else. If empty, `notify` receives it."""
    events: bool = True
    """Whether `notify` receives a message when an update starts, reaches a stage, is rolled back (with
    the reason) or fails. Scaling sends none."""
    runbook: str = Field(default="docs/runbook.md", min_length=1, max_length=200)
    """Address of the runbook; every alarm says what to do first and links to its section. Write an
    address that the on-call engineer can open from an e-mail; the default is a file of the project."""
    topic_kms_key: KmsKeyArn | None = None
    """KMS key of the notifications. If omitted, the stack creates one. The key's policy must allow what
    docs/reference/permissions.md lists."""


@dataclass(frozen=True)
class Unit:
    """A unit of the environment file, and its factor to the metric's unit."""

    symbol: str
    in_the_metric: float
    """One of the file's units, in the metric's unit."""


# SageMaker publishes latency in microseconds; here, and only here, it becomes milliseconds.
MILLISECONDS = Unit("ms", 1000)
# The mean of a metric that is 0 or 1 per request is a share, 0 to 1.
PERCENT = Unit("%", 0.01)
# graph -> unit of its thresholds; those of saturation depend on the instance type
UNITS = {"latency": MILLISECONDS, "errors": PERCENT}
OVERHEAD = "overhead-latency"
# graph -> alarm -> (what it looks at, metric, statistic, its threshold's key in [alarms])
WATCHED = {
    "latency": {
        "p50-latency": ("p50 latency", "ModelLatency", "p50", "p50_latency_ms"),
        "p90-latency": ("p90 latency", "ModelLatency", "p90", "p90_latency_ms"),
        "p99-latency": ("p99 latency", "ModelLatency", "p99", "p99_latency_ms"),
        OVERHEAD: ("mean latency that SageMaker adds", "OverheadLatency", "Average",
                   "overhead_latency_ms"),
    },
    "errors": {
        "4xx": ("requests answered 4xx", "Invocation4XXErrors", "Average", "error_4xx_percent"),
        "5xx": ("requests answered 5xx", "Invocation5XXErrors", "Average", "error_5xx_percent"),
        "model-errors": ("requests that the container failed", "InvocationModelErrors", "Average",
                         "model_error_percent"),
    },
    # Scaling lowers the mean; memory and disk run out on the fullest instance first.
    "saturation": {
        "cpu": ("CPU", "CPUUtilization", "Average", "cpu_percent"),
        "memory": ("memory", "MemoryUtilization", "Maximum", "memory_percent"),
        "disk": ("disk", "DiskUtilization", "Maximum", "disk_percent"),
        "gpu": ("GPU", "GPUUtilization", "Average", "gpu_percent"),
        "gpu-memory": ("GPU memory", "GPUMemoryUtilization", "Maximum", "gpu_memory_percent"),
    },
}  # fmt: skip
PERCENTILES = tuple(alarm for alarm in WATCHED["latency"] if alarm != OVERHEAD)
"""Alarms on a percentile of the model's latency, from the lowest."""
PERCENTILE_KEYS = tuple(WATCHED["latency"][alarm][-1] for alarm in PERCENTILES)
# The alarms of the service objective.
OBJECTIVE = (*PERCENTILES, "5xx")


# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html
# (MetricPublishFrequencyInSeconds, read 2026-11-22)
PublishSeconds = Literal[10, 30, 60, 120, 180, 240, 300]


_DEFAULT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class PublishIntervals:
    """The intervals at which an endpoint's metrics are published, for alarms and dashboards."""

    requests_seconds: int = _DEFAULT_SECONDS
    """Seconds between two values of requests, errors and latency."""
    utilization_seconds: int = _DEFAULT_SECONDS
    """Seconds between two values of CPU, memory, disk and GPU."""
    by_instance: bool = False
    """Whether each instance, and each of its GPUs, has metrics of its own."""

    def round_up_window(self, minutes: int) -> int:
        """Return an alarm's window for requests: `minutes`, rounded up to whole intervals."""
        return math.ceil(60 * minutes / self.requests_seconds) * self.requests_seconds // 60


BY_THE_MINUTE = PublishIntervals()


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

    def find_intervals(self, kind: EndpointKind) -> PublishIntervals:
        """Return the intervals at which an endpoint of this kind publishes its metrics.

        Enhanced metrics are documented only for real-time endpoints, and utilization only for
        endpoints with instances:
        https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch-enhanced-metrics.html
        (2026-11-22)
        """
        enhanced = self.enhanced_metrics and kind.name == "real_time"
        return PublishIntervals(
            requests_seconds=self.publish_seconds if enhanced else _DEFAULT_SECONDS,
            utilization_seconds=self.publish_seconds if kind.has_instances else _DEFAULT_SECONDS,
            by_instance=enhanced,
        )
