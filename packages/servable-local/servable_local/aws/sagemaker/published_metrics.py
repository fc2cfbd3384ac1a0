"""The metrics that SageMaker publishes, with its names, dimensions, and units.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import psutil

from servable_local.aws.clock import Clock
from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_local.aws.sagemaker.container import Container
from servable_scaling.alarms.query import Metric

NAMESPACE = "AWS/SageMaker"
# The namespace of the containers' utilization of this computer.
UTILIZATION_NAMESPACE = "/aws/sagemaker/Endpoints"
NO_CAPACITY_FAILURES = "NoCapacityInvocationFailures"
_MICROSECONDS_PER_SECOND = 1_000_000
_COUNT, _TIME = "None", "Microseconds"
# Shorter measurements are discarded: the clock was moved by hand, or is very fast.
_SHORTEST_SECONDS = 0.5
# Metrics without EndpointConfigName while an update is watched. AWS only documents it for ModelLatency; that
# the others have it is inferred, and a test removes it from them.
# https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html (2026-11-23)
OF_BOTH_FLEETS: set[str] = set()
# Metrics that SageMaker doesn't publish for a kind of endpoint.
_NOT_PUBLISHED = {
    "real_time": "",
    "serverless": "InvocationsPerInstance InvocationModelErrors CPUUtilization DiskUtilization",
    "asynchronous": "Invocations InvocationsPerInstance InvocationModelErrors OverheadLatency",
}


@dataclass(frozen=True)
class Invocation:
    """A request that reached a container. `status` 0: no HTTP response came."""

    status: int
    instance_count: int
    model_seconds: float
    overhead_seconds: float


def publish_invocation(
    store: MetricStore,
    clock: Clock,
    invocation: Invocation,
    *,
    dimensions: dict[str, str],
    config: str | None,
    kind: str,
    pool: tuple[str, int] | None = None,
    component: str | None = None,
) -> None:
    """Publish the metrics of an invocation. `dimensions`: EndpointName and VariantName.

    `config` adds metrics of a single fleet, while an update is watched; `pool`, an instance type
    and its count, adds that type's; `component`, whose copies `instance_count` counts, adds its
    own. `kind` of the endpoint: real_time, serverless, or asynchronous.
    """
    status, overhead_seconds = invocation.status, max(0.0, invocation.overhead_seconds)
    published = {
        # Sent as 0 or 1 for every request, so that an average is a share.
        "Invocations": (1.0, _COUNT),
        "InvocationsPerInstance": (1.0 / max(1, invocation.instance_count), _COUNT),
        "Invocation4XXErrors": (float(400 <= status < 500), _COUNT),
        "Invocation5XXErrors": (float(500 <= status < 600), _COUNT),
        # Any response other than 2xx; unlike the two above, also broken connections and timeouts.
        "InvocationModelErrors": (float(not 200 <= status < 300), _COUNT),
        "ModelLatency": (round(invocation.model_seconds * _MICROSECONDS_PER_SECOND), _TIME),
        "OverheadLatency": (round(overhead_seconds * _MICROSECONDS_PER_SECOND), _TIME),
    }
    at = clock.now()
    if pool is not None:
        of_type = dimensions | {"InstanceType": pool[0]}
        each = published | {"InvocationsPerInstance": (1.0 / max(1, pool[1]), _COUNT)}
        _add_values(store, at, each, of_type, kind)
    if component:
        of_copies = dict(published)
        of_copies["InvocationsPerCopy"] = of_copies.pop("InvocationsPerInstance")
        _add_values(store, at, of_copies, {"InferenceComponentName": component}, kind)
        published.pop("InvocationsPerInstance")
    _add_values(store, at, published, dimensions, kind)
    if config:
        of_fleet = {name: value for name, value in published.items() if name not in OF_BOTH_FLEETS}
        _add_values(store, at, of_fleet, dimensions | {"EndpointConfigName": config}, kind)


def _add_values(
    store: MetricStore,
    at: datetime,
    published: Mapping[str, tuple[float, str]],
    dimensions: Mapping[str, str],
    kind: str = "real_time",
    namespace: str = NAMESPACE,
) -> None:
    """Add {metric: value, unit}, except what isn't published for this kind of endpoint."""
    for name, (value, unit) in published.items():
        if name not in _NOT_PUBLISHED[kind].split():
            store.add(Metric.from_dimensions(namespace, name, dimensions), value, unit=unit, at=at)


def publish_scaling_metrics(
    store: MetricStore,
    at: datetime,
    *,
    dimensions: dict[str, str],
    concurrency: float,
    minute_ends: bool,
    names: tuple[str, str],
) -> None:
    """Publish the metrics that scalable resources also send without requests, to scale in.

    `names`: theirs. Sources (2026-11-22):
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-policy.html (zeros
    without traffic), monitoring-cloudwatch.html (ConcurrentRequestsPerModel every 10 s).
    """
    published = {names[0]: (concurrency, _COUNT)}
    end = at + timedelta(seconds=1)
    invocations = Metric.from_dimensions(NAMESPACE, names[1], dimensions)
    begin = end - timedelta(minutes=1)
    if minute_ends and not store.collect_samples(invocations, begin, end).count:
        published[names[1]] = (0.0, _COUNT)
    _add_values(store, at, published, dimensions)


def publish_failure(
    store: MetricStore, clock: Clock, name: str, *, dimensions: dict[str, str]
) -> None:
    """Publish a failure: NoCapacityInvocationFailures of a component, or of an asynchronous request.

    Sources (2026-11-22): endpoint-auto-scaling-zero-instances.html and async-inference-monitor.html
    of SageMaker's guide.
    """
    unit = _COUNT if name == NO_CAPACITY_FAILURES else "Count"
    _add_values(store, clock.now(), {name: (1.0, unit)}, dimensions)


def publish_backlog(
    store: MetricStore, at: datetime, endpoint: str, *, received: Sequence[datetime], instances: int
) -> None:
    """Publish how many asynchronous requests are unfinished at the end of the minute before `at`.

    `received`: when each request was. Without an instance the whole backlog is that of one,
    because target tracking starts the first once it exceeds the target. Sources (2026-11-28):
    https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html,
    async-inference-autoscale.html
    """
    within = at - timedelta(seconds=1)
    published = {
        "ApproximateBacklogSize": (float(len(received)), "Count"),
        "ApproximateBacklogSizePerInstance": (len(received) / max(1, instances), "Count"),
        "HasBacklogWithoutCapacity": (float(bool(received) and not instances), "Count"),
    }
    if received:
        age_seconds = max(0.0, (within - min(received)).total_seconds())
        published["ApproximateAgeOfOldestRequest"] = (age_seconds, "Seconds")
    _add_values(store, within, published, {"EndpointName": endpoint})


def publish_utilization(
    store: MetricStore,
    at: datetime,
    percents: Mapping[str, float],
    *,
    dimensions: dict[str, str],
    kind: str,
    pools: Sequence[str] = (),
) -> None:
    """Publish the utilization of the minute before `at`, also per instance type in `pools`."""
    published = {name: (percent, "Percent") for name, percent in percents.items()}
    for each in (dimensions, *(dimensions | {"InstanceType": name} for name in pools)):
        _add_values(store, at - timedelta(seconds=1), published, each, kind, UTILIZATION_NAMESPACE)


@dataclass
class Utilization:
    """Utilization of one container between two measurements."""

    _looked: float = field(default_factory=time.monotonic)
    _cpu_seconds: dict[int, float] = field(default_factory=dict)

    def measure(self, container: Container) -> dict[str, float]:
        """Return {metric: percent} since the last call; empty if there is nothing to measure.

        CPUUtilization is 100 for each busy core, as in SageMaker.
        """
        elapsed_seconds = time.monotonic() - self._looked
        if container.pid is None or elapsed_seconds < _SHORTEST_SECONDS:
            return {}
        before, self._cpu_seconds = self._cpu_seconds, {}
        memory_bytes = 0
        try:
            top = psutil.Process(container.pid)
            processes = [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            processes = []
        for process in processes:
            try:
                times = process.cpu_times()
                self._cpu_seconds[process.pid] = times.user + times.system
                # PSS: a forked worker shares most memory with its parent.
                memory = process.memory_full_info()
                memory_bytes += getattr(memory, "pss", memory.uss)  # macOS has no PSS
            except psutil.Error:
                continue  # it ended
        first, self._looked = not before, time.monotonic()
        percents = {"MemoryUtilization": 100 * memory_bytes / psutil.virtual_memory().total}
        if container.folder is not None:
            size_bytes = 0
            for path in container.folder.rglob("*"):
                with contextlib.suppress(OSError):  # a temporary file, deleted meanwhile
                    size_bytes += path.lstat().st_size
            disk = psutil.disk_usage(str(container.folder)).total
            percents["DiskUtilization"] = 100 * size_bytes / disk
        if not first:
            busy = sum(now - before.get(pid, 0.0) for pid, now in self._cpu_seconds.items())
            percents["CPUUtilization"] = 100 * busy / elapsed_seconds
        return percents
