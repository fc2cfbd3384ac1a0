"""[alarms]: what somebody is woken for or told of, in milliseconds, percent and minutes."""

from typing import Annotated

from pydantic import Field

from infra.parameters.table import KmsKeyArn, Table

Milliseconds = Annotated[
    float, Field(gt=0, le=60_000)
]  # InvokeEndpoint answers within 60 s or fails
Share = Annotated[float, Field(gt=0, lt=100)]
# CloudWatch looks back over at most a day at a period of one minute.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
Minutes = Annotated[int, Field(ge=1, le=1440)]

Address = Annotated[
    str, Field(pattern=r"^([^@\s]+@[^@\s]+\.[^@\s]+|https://[^\s@/]+(/[^\s]*)?)$", max_length=320)
]


class Alarms(Table):
    """Every alarm informs; one over those of latency and 5xx, "the objective is broken", pages."""

    p50_latency_ms: Milliseconds | None = None
    """Half of the requests are answered by the container within this. Left out, there is no such
    alarm: only you know the objective."""
    p90_latency_ms: Milliseconds | None = None
    """90 of 100 requests are answered by the container within this. Left out, there is no such
    alarm."""
    p99_latency_ms: Milliseconds | None = None
    """99 of 100 requests are answered by the container within this. Left out, there is no such
    alarm. It also takes back an update."""
    overhead_latency_ms: Milliseconds = 500.0
    """Mean time SageMaker itself adds to a request. Tens of ms are usual; 500 means throttling or a
    network in trouble."""
    error_4xx_percent: Share | None = None
    """Share of requests answered 4xx. Left out, there is no such alarm: only you know how many
    mistakes of your callers are usual."""
    error_5xx_percent: Share = 1.0
    """Share of requests answered 5xx. 1 % is above what restarts and retries cause."""
    model_error_percent: Share | None = None
    """Share of requests that the container did not answer 2xx: 4xx, 5xx, broken connections and
    timeouts. Left out, there is no such alarm."""
    cpu_percent: Share = 90.0
    """Mean CPU of the instances, of all their vCPUs. Above 90 requests wait for each other; scaling
    should have come before."""
    memory_percent: Share = 90.0
    """Memory of the fullest instance. Above 90 the kernel soon kills a process."""
    disk_percent: Share = 80.0
    """Disk of the fullest instance. It only fills by what the code writes: 80 leaves time to find
    it."""
    gpu_percent: Share = 95.0
    """Mean use of the instances' GPUs, of all of them. A GPU is meant to be busy; above 95 requests
    queue for it."""
    gpu_memory_percent: Share | None = None
    """Memory of the fullest instance's GPUs. Left out, there is no such alarm: TensorFlow takes
    nearly all of it at start."""
    no_traffic_minutes: Minutes | None = None
    """Minutes without any request. Left out, there is no such alarm: only you know whether the
    night is quiet."""
    oldest_request_minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    """Minutes that the oldest request waits in the queue of [asynchronous]. Left out, there is no
    such alarm: only you know how long answers may take."""
    async_failures_per_minute: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    """Requests a minute to an [asynchronous] endpoint that fail, that expire in its queue, or whose
    notification fails; each has its alarm. 0: one is news, for no caller waits for the answer."""
    at_max_minutes: Minutes = 10
    """Minutes at max_instances, of a variant that scales: from then on more traffic is slower
    answers. 10 is twice what a new instance needs."""
    refused_per_minute: Annotated[float, Field(gt=0, le=1_000_000)] = 10.0
    """Requests a minute that the container turns away, its queue being full (429, or 503 of the
    model server). A few are a burst."""
    window_minutes: Annotated[int, Field(ge=1, le=60)] = 3
    """Consecutive minutes a threshold must be crossed: one bad minute wakes nobody."""
    notify: list[Address] = Field(default=[], json_schema_extra={"uniqueItems": True})
    """E-mail addresses and https URLs that are told of everything; each confirms once. Left empty,
    the topic has no subscribers yet."""
    page: list[Address] = Field(default=[], json_schema_extra={"uniqueItems": True})
    """E-mail addresses and https URLs, as of PagerDuty, that are woken when the service objective
    is broken, and told of nothing else. Left empty, `notify` hears of it too."""
    events: bool = True
    """Whether `notify` is told when an update starts, reaches a stage, is rolled back and why, or
    fails. Scaling is not told."""
    runbook: str = Field(default="docs/runbook.md", min_length=1, max_length=200)
    """Where the runbook lies; every alarm names its section of it. Write an address that the person
    on call can open."""
    topic_kms_key: KmsKeyArn | None = None
    """KMS key of the notifications. Left out, the stack makes one. Its policy must allow what
    docs/permissions.md says."""
