"""A day of one variant as the engine takes it: its file's policies, alarms, routing, start and deployment."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from infra.parameters.endpoint import Traffic
from infra.parameters.environment import Environment
from infra.parameters.placement import Placement
from infra.parameters.scaling import Scaling
from infra.parameters.scaling_properties import scaling_properties
from infra.policy.derived_settings import queue_limit
from infra.policy.sizing import BOOT_SECONDS, instances_for
from servable_scaling.rehearsal.fleet import InstanceModel, Routing, Service
from servable_scaling.rehearsal.scenario import PlacedDeployment, Scenario, Sleep
from servable_scaling.rehearsal.traffic import BASE_SHARE, from_file, profile
from servable_scaling.scalable_target import ScheduledAction
from servable_scaling.schedule import ActionSchedule

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)

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


# Who states neither has a range. A start: AWS's "minutes" by BOOT_SECONDS, and 426 s as seen in an endpoint
# that a scaling activity had Updating from 02:28:13 to 02:35:19 (docs/decisions/0063); 244 s of an
# ml.m6g.large lie between them (2026-07).
LONGEST_START_SECONDS = 420.0
# A decision: three minutes of datapoints, seen at once; against that "more than 5 minutes" until instances
# were added, https://repost.aws/questions/QUf450Wsd9RROGGOIwaolN9w/sagemaker-autoscaling-delay, and "5-6
# minutes", https://github.com/aws/containers-roadmap/issues/2113 (both 2026-11-24). Of what sleeps, 102 s
# from the first request to the desired copy: https://github.com/huggingface/skills/pull/215 (2026-07).
LONGEST_DELAY_SECONDS = 180


@dataclass(frozen=True, kw_only=True)
class ScalingPace:
    """The pace at which instances come: the time of a start, and until an alarm sees a datapoint.

    For what sleeps these are the instance's start with its copy's, and the delay of the alarm that wakes it.
    """

    start_seconds: float
    metric_delay_seconds: int

    @property
    def start_minutes(self) -> int:
        return math.ceil(self.start_seconds / 60)

    def sleep(self, wake_seconds: float) -> Sleep:
        """The start to the second; on an instance that is still there nothing boots."""
        return Sleep(
            start_seconds=self.start_seconds,
            copy_start_seconds=max(0.0, self.start_seconds - BOOT_SECONDS),
            wake_seconds=wake_seconds,
        )


def paces(placed: Placement) -> list[ScalingPace]:
    """Each combination of what is stated, or of the least and the most that was seen; the slowest last."""
    scaling, stated = placed.variant.scaling, placed.variant.start_seconds
    estimated = placed.start_seconds or BOOT_SECONDS
    starts = [float(BOOT_SECONDS), max(LONGEST_START_SECONDS, estimated)]
    delays = [0, LONGEST_DELAY_SECONDS]
    if stated is not None:
        starts = [float(stated)]
    if not placed.variant.scales:
        delays = [0]
    elif scaling is not None and scaling.metric_delay_seconds is not None:
        delays = [scaling.metric_delay_seconds]
    return [
        ScalingPace(start_seconds=start, metric_delay_seconds=delay)
        for start in starts
        for delay in delays
    ]


def unstated(placed: Placement) -> list[str]:
    """Keys without which the pace is a range."""
    scaling, key = placed.variant.scaling, f"{placed.table}.{placed.name}"
    keys = [f"{key}.start_seconds"] if placed.variant.start_seconds is None else []
    if placed.variant.scales and (scaling is None or scaling.metric_delay_seconds is None):
        keys.append(f"{key}.scaling.metric_delay_seconds")
    return keys


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
    deploy_at: int | None = None,
    pace: ScalingPace | None = None,
) -> Scenario:
    """Return the scenario of a variant's day.

    `requests`: of the endpoint, by the minute; the variant gets its share. `deploy_at`: the minute in which
    a deployment begins, by the file's own rollout. `pace`: by default the estimated start, and datapoints
    that are seen at once.
    """
    properties = scaling_properties(environment, placed)
    targets = {
        name: {**target, **_in_force(target, Scenario.begins)}
        for name, target in properties.targets.items()
    }
    # A shadow variant gets a copy of each request.
    share = None if placed.variant.shadow else environment.share(placed.name)
    traffic = [(1.0 if share is None else share) * minute for minute in requests]
    pace = pace or ScalingPace(
        start_seconds=placed.start_seconds or BOOT_SECONDS, metric_delay_seconds=0
    )
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
        instances=_at_first(placed, targets, traffic[0] / 60, instance.rate_rps),
        start_minutes=pace.start_minutes,
        targets=targets,
        policies=properties.policies,
        alarms=properties.alarms,
        page=properties.page or None,
        p99_ms=environment.alarms.p99_latency_ms,
        deployment=_deployment(environment, placed, deploy_at),
        metric_delay_seconds=pace.metric_delay_seconds,
        sleep=pace.sleep(environment.endpoint.wake_seconds) if placed.variant.sleeps else None,
    )


def never_asleep(environment: Environment, placed: Placement) -> Environment:
    """The environment with at least one copy of what sleeps, to compare with."""
    _, host, *_ = f"{placed.table}.{placed.name}".split(".")
    variant = environment.variants[host]
    keys: dict[str, Any] = {"sleep_after_minutes": None}
    if (scaling := placed.variant.scaling) is not None:
        schedule = [
            action.model_copy(update={"at_least": 1}) if action.at_least == 0 else action
            for action in scaling.schedule
        ]
        keys["scaling"] = scaling.model_copy(update={"schedule": schedule})
    if (component := placed.variant.component) is not None:
        keys["min_copies"] = max(1, component.min_copies)
        components = {**variant.components, placed.name: component.model_copy(update=keys)}
        keys = {"components": components}
    else:
        keys |= {"copy_memory_mib": None, "min_instances": max(1, variant.min_instances)}
    awake = variant.model_copy(update=keys)
    return environment.model_copy(update={"variants": {**environment.variants, host: awake}})


def _in_force(target: Mapping[str, Any], begins: datetime) -> dict[str, int]:
    """The bounds that the schedule has set in the day before: the last of each counts."""
    bounds: dict[str, int] = {}
    try:
        actions = [ScheduledAction.of(action) for action in target.get("ScheduledActions", ())]
        schedules = [
            ActionSchedule(
                action.schedule,
                time_zone=action.time_zone,
                start=action.start,
                end=action.end,
                created=begins - DAY,
            )
            for action in actions
        ]
    except (ValueError, KeyError):
        return {}  # the day itself says which schedule cannot be read
    if not actions:
        return {}
    for minute in range(1, DAY // MINUTE):
        for action, schedule in zip(actions, schedules, strict=True):
            if schedule.due(begins - minute * MINUTE):
                for name, bound in (
                    ("MinCapacity", action.minimum),
                    ("MaxCapacity", action.maximum),
                ):
                    if bound is not None:
                        bounds.setdefault(name, bound)
    return bounds


def _at_first(
    placed: Placement, targets: Mapping[str, Mapping[str, Any]], rps: float, rate: float
) -> int:
    """As many as the first minute needs: scaling has been running before midnight."""
    variant, scaling = placed.variant, placed.variant.scaling
    if not variant.scales:
        return max(1, variant.min_instances)
    least, most = variant.capacity
    for target in targets.values():
        least, most = target["MinCapacity"], target["MaxCapacity"]
    safety = Scaling().safety_factor if scaling is None else scaling.safety_factor
    needed = instances_for(rps, max_rps_per_instance=rate, safety_factor=safety) if rps else 0
    return min(most, max(least, needed))


def deployment_seconds(environment: Environment, placed: Placement, count: int) -> float | None:
    """Seconds of an update with so many instances, as `servable plan` computes it; None without [rollout]."""
    if environment.rollout is None:
        return None
    (update,) = environment.rollout.updates(
        least=count, most=count, window_minutes=environment.window_minutes
    )
    return update.expected_seconds(placed.start_seconds or BOOT_SECONDS)


def _deployment(
    environment: Environment, placed: Placement, minute: int | None
) -> PlacedDeployment | None:
    if minute is None:
        return None
    plan = environment.rollout
    if plan is None:
        return PlacedDeployment(minute=minute)
    if plan.strategy == "rolling":
        return PlacedDeployment(
            minute=minute, bake_minutes=plan.bake_minutes, batch_percent=plan.batch_percent
        )
    window, by_count = environment.window_minutes, {}
    for count in range(1, max(placed.variant.planned_capacity) + 1):
        (update,) = plan.updates(least=count, most=count, window_minutes=window)
        by_count[count] = tuple(100 * step / count for step in update.steps)
    return PlacedDeployment(
        minute=minute,
        by_count=by_count,
        bake_minutes=plan.bake_minutes,
        last_bake_minutes=update.last_bake_seconds // 60,
    )
