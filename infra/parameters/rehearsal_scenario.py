"""A day of one variant as the engine takes it: its file's policies, alarms, routing, start and deployment."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from infra.parameters.endpoint import Traffic
from infra.parameters.environment import Environment
from infra.parameters.placement import Placement
from infra.parameters.scaling_properties import scaling_properties
from infra.policy.queue_limit import queue_limit
from infra.policy.sizing import BOOT_SECONDS, instances_for
from servable_scaling.rehearsal.fleet import InstanceModel, Routing
from servable_scaling.rehearsal.queueing import Service
from servable_scaling.rehearsal.scenario import PlacedDeployment, Scenario
from servable_scaling.rehearsal.traffic import BASE_SHARE, from_file, profile

# InvokeEndpoint waits so long: what waits longer has failed.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (2026-11-22)
LONGEST_WAIT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class MeasuredInstance:
    """One instance. `source`: where the numbers come from, in words."""

    rate_rps: float
    p50_ms: float
    p99_ms: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Incidents:
    """Minutes of the day in which something happens; `deploy` with the file's own rollout."""

    deploy: int | None = None
    instance_dies: tuple[int, ...] = ()
    zone_fails: tuple[int, ...] = ()


def stated_day(traffic: Traffic) -> list[float] | None:
    """The requests by the minute that [traffic] states, or None. Raises TrafficError."""
    if traffic.day is not None:
        return from_file(traffic.day.path, traffic.day)
    if traffic.profile is None or traffic.peak_rps is None:
        return None
    quiet = BASE_SHARE * traffic.peak_rps if traffic.quiet_rps is None else traffic.quiet_rps
    return profile(
        traffic.profile, peak_rps=traffic.peak_rps, base_rps=min(quiet, traffic.peak_rps)
    )


def scenario(
    environment: Environment,
    placed: Placement,
    requests: Sequence[float],
    instance: MeasuredInstance,
    incidents: Incidents = Incidents(),
) -> Scenario:
    """`requests`: of the endpoint, by the minute; the variant gets its share."""
    properties = scaling_properties(environment, placed)
    # A shadow variant gets a copy of each request.
    share = None if placed.variant.shadow else environment.share(placed.name)
    traffic = [(1.0 if share is None else share) * minute for minute in requests]
    start = placed.start_seconds
    service = Service(instance.p50_ms / 1000, instance.p99_ms / 1000)
    # The requests that may wait in one instance, by the settings of its container.
    limit = queue_limit(
        placed.settings,
        vcpus=placed.instance.vcpus,
        workers=placed.workers,
        processes=placed.processes,
        rows=environment.traffic.rows_per_request or 1,
    )
    waiting = min(limit.requests, LONGEST_WAIT_SECONDS * instance.rate_rps)
    routing: Routing = "random"
    if placed.routing.value == "least_outstanding_requests":
        routing = "least_outstanding_requests"
    return Scenario(
        requests=traffic,
        model=InstanceModel(instance.rate_rps, service, waiting),
        routing=routing,
        resource=properties.resource,
        instances=_at_first(placed, traffic[0] / 60, instance.rate_rps),
        start_minutes=math.ceil((BOOT_SECONDS if start is None else start) / 60),
        targets=properties.targets,
        policies=properties.policies,
        alarms=properties.alarms,
        page=properties.page or None,
        p99_ms=environment.alarms.p99_latency_ms,
        deployment=None if incidents.deploy is None else deployment(environment, incidents.deploy),
        instance_dies=incidents.instance_dies,
        zone_fails=incidents.zone_fails,
    )


def _at_first(placed: Placement, rps: float, rate: float) -> int:
    """As many as the first minute needs: scaling has been running before midnight."""
    variant, scaling = placed.variant, placed.variant.scaling
    if scaling is None or not variant.scales:
        return max(1, variant.min_instances)
    least, most = variant.capacity
    needed = instances_for(rps, max_rps_per_instance=rate, safety_factor=scaling.safety_factor)
    return min(most, max(least, needed))


def deployment(environment: Environment, minute: int) -> PlacedDeployment:
    """A deployment that begins in this minute of the day, by the file's own rollout."""
    plan = environment.rollout
    if plan is None:
        return PlacedDeployment(minute=minute)
    if plan.strategy == "rolling":
        return PlacedDeployment(
            minute=minute, bake_minutes=plan.bake_minutes, batch_percent=plan.batch_percent
        )
    # The steps of a fleet of 100 instances are percentages.
    (update,) = plan.updates(least=100, most=100, window_minutes=environment.window_minutes)
    shares = tuple(float(step) for step in update.steps)
    return PlacedDeployment(minute=minute, shares=shares, bake_minutes=plan.bake_minutes)
