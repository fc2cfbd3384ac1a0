"""Converts a variant and a day of traffic to a scenario for the rehearsal engine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from infra.parameters.endpoint import Traffic
from infra.parameters.environment import Environment
from infra.parameters.placement import Placement
from infra.parameters.scaling import Scaling
from infra.parameters.scaling_properties import build_scaling_properties
from infra.policy.derived_settings import compute_queue_limit
from infra.policy.sizing import BOOT_SECONDS, count_instances
from servable_scaling.rehearsal.fleet import InstanceModel, Routing, Service
from servable_scaling.rehearsal.scenario import PlacedDeployment, Scenario, Sleep
from servable_scaling.rehearsal.traffic import BASE_SHARE, build_profile, read_traffic
from servable_scaling.scalable_target import ScheduledAction
from servable_scaling.schedule import ActionSchedule

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)

# InvokeEndpoint waits so long: what waits longer has failed.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (2026-11-22)
LONGEST_WAIT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class MeasuredInstance:
    """The measured capacity of one instance. `source` describes where the numbers come from."""

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
class ScalingDelays:
    """The delays of scaling: an instance's start, and the wait until an alarm sees a datapoint.

    For a component that scales to zero, the start is that of the instance and its copy, and the
    wait is the delay of the alarm that starts the first copy.
    """

    start_seconds: float
    metric_delay_seconds: int

    @property
    def start_minutes(self) -> int:
        return math.ceil(self.start_seconds / 60)


def list_scaling_delays(placed: Placement) -> list[ScalingDelays]:
    """Return each combination of start time and alarm delay, the slowest last.

    A stated value is used alone. Otherwise the shortest and the longest observed values are used,
    the longest start being at least the estimated one.
    """
    scaling, stated = placed.variant.scaling, placed.variant.start_seconds
    estimated = placed.start_seconds or BOOT_SECONDS
    starts = [float(BOOT_SECONDS), max(LONGEST_START_SECONDS, estimated)]
    delays = [0, LONGEST_DELAY_SECONDS]
    if stated is not None:
        starts = [float(stated)]
    if not placed.variant.is_scaled:
        delays = [0]
    elif scaling is not None and scaling.metric_delay_seconds is not None:
        delays = [scaling.metric_delay_seconds]
    return [
        ScalingDelays(start_seconds=start, metric_delay_seconds=delay)
        for start in starts
        for delay in delays
    ]


def list_missing_keys(placed: Placement) -> list[str]:
    """Return the omitted keys whose absence makes a scaling delay a range."""
    scaling, key = placed.variant.scaling, f"{placed.table}.{placed.name}"
    keys = [f"{key}.start_seconds"] if placed.variant.start_seconds is None else []
    if placed.variant.is_scaled and (scaling is None or scaling.metric_delay_seconds is None):
        keys.append(f"{key}.scaling.metric_delay_seconds")
    return keys


def read_stated_day(traffic: Traffic) -> list[float] | None:
    """Return the requests per minute that [traffic] states, or None. Raise TrafficError."""
    if traffic.day is not None:
        return read_traffic(traffic.day.path, traffic.day)
    if traffic.profile is None or traffic.peak_rps is None:
        return None
    quiet = BASE_SHARE * traffic.peak_rps if traffic.quiet_rps is None else traffic.quiet_rps
    base_rps = min(quiet, traffic.peak_rps)
    return build_profile(traffic.profile, peak_rps=traffic.peak_rps, base_rps=base_rps)


def build_scenario(
    environment: Environment,
    placed: Placement,
    requests: Sequence[float],
    instance: MeasuredInstance,
    deploy_at: int | None = None,
    pace: ScalingDelays | None = None,
) -> Scenario:
    """Return the scenario of a variant's day.

    `requests` has the endpoint's requests per minute, of which the variant gets its share.
    `deploy_at` is the minute in which a deployment begins, with the file's own rollout. `pace` is
    by default the estimated start, with datapoints that alarms see at once.
    """
    properties = build_scaling_properties(environment, placed)
    targets = {
        name: {**target, **_find_scheduled_bounds(target, Scenario.begins)}
        for name, target in properties.targets.items()
    }
    # A shadow variant gets a copy of each request.
    share = None if placed.variant.shadow else environment.compute_share(placed.name)
    traffic = [(1.0 if share is None else share) * minute for minute in requests]
    start = placed.start_seconds or BOOT_SECONDS
    pace = pace or ScalingDelays(start_seconds=start, metric_delay_seconds=0)
    # A copy on a running instance needs no boot.
    sleep = Sleep(
        start_seconds=pace.start_seconds,
        copy_start_seconds=max(0.0, pace.start_seconds - BOOT_SECONDS),
        wake_seconds=environment.endpoint.wake_seconds,
    )
    service = Service(instance.p50_ms / 1000, instance.p99_ms / 1000)
    # The requests that may wait in one instance, by the settings of its container.
    limit = compute_queue_limit(
        placed.settings,
        vcpus=placed.instance.vcpus,
        workers=placed.workers,
        processes=placed.processes,
        rows=environment.traffic.rows_per_request or 1,
    )
    waiting = min(limit, LONGEST_WAIT_SECONDS * instance.rate_rps)
    routing: Routing = placed.routing.value or "random"
    return Scenario(
        requests=traffic,
        model=InstanceModel(instance.rate_rps, service, waiting),
        routing=routing,
        resource=properties.resource,
        instances=_count_initial_instances(placed, targets, traffic[0] / 60, instance.rate_rps),
        start_minutes=pace.start_minutes,
        targets=targets,
        policies=properties.policies,
        alarms=properties.alarms,
        page=properties.page or None,
        p99_ms=environment.alarms.p99_latency_ms,
        deployment=_build_deployment(environment, placed, deploy_at),
        metric_delay_seconds=pace.metric_delay_seconds,
        sleep=sleep if placed.variant.can_sleep else None,
    )


def disable_sleep(environment: Environment, placed: Placement) -> Environment:
    """Return the environment with at least one copy of the sleeping component, for comparison."""
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


def _find_scheduled_bounds(target: Mapping[str, Any], begins: datetime) -> dict[str, int]:
    """Return the bounds that the schedule set on the day before. The last of each counts."""
    bounds: dict[str, int] = {}
    planned = []
    try:
        for properties in target.get("ScheduledActions", ()):
            action = ScheduledAction.from_properties(properties)
            schedule = ActionSchedule(
                action.schedule,
                time_zone=action.time_zone,
                start=action.start,
                end=action.end,
                created=begins - DAY,
            )
            set_by_it = {"MinCapacity": action.minimum, "MaxCapacity": action.maximum}
            planned.append((schedule, set_by_it))
    except (ValueError, KeyError):
        return {}  # the day itself reports which schedule cannot be read
    for minute in range(1, DAY // MINUTE) if planned else ():
        for schedule, set_by_it in planned:
            if schedule.is_due(begins - minute * MINUTE):
                for name, bound in set_by_it.items():
                    if bound is not None:
                        bounds.setdefault(name, bound)
    return bounds


def _count_initial_instances(
    placed: Placement, targets: Mapping[str, Mapping[str, Any]], rps: float, rate: float
) -> int:
    """Return the number of instances that the first minute needs: scaling ran before midnight."""
    variant, scaling = placed.variant, placed.variant.scaling
    if not variant.is_scaled:
        return max(1, variant.min_instances)
    least, most = variant.capacity
    for target in targets.values():
        least, most = target["MinCapacity"], target["MaxCapacity"]
    safety = Scaling().safety_factor if scaling is None else scaling.safety_factor
    needed = count_instances(rps, max_rps_per_instance=rate, safety_factor=safety) if rps else 0
    return min(most, max(least, needed))


def estimate_deployment_seconds(
    environment: Environment, placed: Placement, count: int
) -> float | None:
    """Return an update's seconds, as `servable plan` computes it; None without [rollout]."""
    if environment.rollout is None:
        return None
    (update,) = environment.rollout.list_updates(
        least=count, most=count, window_minutes=environment.window_minutes
    )
    return update.estimate_seconds(placed.start_seconds or BOOT_SECONDS)


def _build_deployment(
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
        (update,) = plan.list_updates(least=count, most=count, window_minutes=window)
        by_count[count] = tuple(100 * step / count for step in update.steps)
    return PlacedDeployment(
        minute=minute,
        by_count=by_count,
        bake_minutes=plan.bake_minutes,
        last_bake_minutes=update.last_bake_seconds // 60,
    )
