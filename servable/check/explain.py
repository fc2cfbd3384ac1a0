"""Why an environment is deployed as it is: every setting that was chosen, with its reason."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.catalog.prices import price
from infra.parameters.environment import Environment
from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement, placements
from infra.parameters.rollout import Rollout
from infra.policy.container import Batching
from infra.policy.hosting import driver_for
from infra.policy.scaling import cooldowns, invocations_per_instance_per_minute
from infra.policy.sizing import (
    HOURS_PER_MONTH,
    instances_for,
    memory,
    start_seconds,
    usd_per_month,
)
from infra.policy.update import SECONDS_PER_MINUTE, Update
from infra.policy.wait_time import download_timeout_seconds, startup_timeout_seconds
from infra.preflight.rendering import counted

QUOTA = "what the account's quota must allow"

Said = tuple[str, str, str, str]
"""Name, value, origin and reason of one line."""


@dataclass(frozen=True)
class ExplainedSetting:
    """One setting of one variant."""

    variant: str
    name: str
    value: str
    origin: str
    """file, derived, image (left to it), or sizing (computed, not set)."""
    reason: str


def explained(loaded: Loaded) -> list[ExplainedSetting]:
    """Of every variant whose machine and model are known; an unreadable file has none."""
    if loaded.draft is None:
        return []
    return [
        ExplainedSetting(
            one.name if one.pool is None else f"{one.name}, {one.instance.name}", *said
        )
        for one in placements(loaded, loaded.draft)
        for said in _lines(loaded.draft, one)
    ]


def _lines(environment: Environment, one: Placement) -> Iterator[Said]:
    for choice in one.derived.choices:
        if isinstance(choice.value, Batching):
            yield from _batching(one, choice.value, choice.reason)
        else:
            yield choice.name, _shown(choice.value), choice.origin, choice.reason
    yield from _machine(one)
    yield from _sizes(one, environment.region, _peak(environment, one))
    yield from _scaling(environment, one)
    yield from update_lines(environment, one)


def _batching(one: Placement, chosen: Batching, reason: str) -> Iterator[Said]:
    written = one.variant.container.batching
    stated = written.model_fields_set if written else set()
    for name, value in chosen:
        if name in stated:
            origin, why = "file", "from the file"
        elif name in ("batch_threads", "max_enqueued_batches"):
            origin, why = "derived", reason
        else:
            origin, why = "image", "the image's own default"
        yield (f"batching.{name}", str(value), origin, why)


def _peak(environment: Environment, one: Placement) -> float | None:
    peak, weights = environment.traffic.peak_rps, environment.production_variants.values()
    total = sum(variant.weight for variant in weights)
    return None if peak is None or not total else peak * one.variant.weight / total


def _machine(one: Placement) -> Iterator[Said]:
    variant, newest = one.variant, f"the newest image that {one.instance.name} can run"
    yield _stated("tensorflow", one.model.tensorflow, one.tensorflow, newest)
    if one.instance.gpus:
        ami = driver_for(one.tensorflow, one.instance)
        why = f"the oldest driver that carries {one.tensorflow}'s CUDA"
        if ami is None:
            why = f"none needed for {one.tensorflow}'s CUDA, or none listed for {one.instance.name}"
        yield _stated("inference_ami", variant.inference_ami, ami, why)
    if variant.serverless is not None:
        return  # it has the time that SageMaker gives it
    timeouts = {
        "download_timeout_seconds": download_timeout_seconds(one.served),
        "startup_timeout_seconds": startup_timeout_seconds(one.served, processes=one.processes),
    }
    for name, value in timeouts.items():
        origin = "derived" if value else "image"
        why = "twice the estimate" if value else "SageMaker's own is enough for this model"
        yield _stated(name, getattr(variant, name), value, why, origin)


def _stated(name: str, given: object, chosen: object, why: str, origin: str = "derived") -> Said:
    """What the file says; else what is chosen, and why."""
    if given is not None:
        return name, str(given), "file", "from the file"
    return name, _shown(chosen), origin, why


def _sizes(one: Placement, region: str, rps: float | None) -> Iterator[Said]:
    """`rps`: its share of the traffic at the peak."""
    used = memory(one.instance, one.served, processes=one.processes, workers=one.workers)
    if used is not None:
        yield (
            "memory",
            f"{used.needed_gib:.1f} GiB",
            "sizing",
            f"servers {used.servers_gib:.1f}, workers {used.workers_gib:.1f}, system "
            f"{used.system_gib:.1f} of {one.instance.memory_gib:g} GiB",
        )
    if one.variant.serverless is not None:
        why = "by the request: memory, time and what is provisioned"
        yield ("cost", "of use", "sizing", why)
        return
    start = start_seconds(one.served, processes=one.processes)
    if start is not None:
        why = "boot, download, unpack and load, estimated"
        yield ("start", f"{start:.0f} s", "sizing", why)
    most = one.variant.most_instances
    scaling = one.variant.scaling
    if scaling is not None and scaling.max_rps_per_instance is not None and rps is not None:
        needed = instances_for(
            rps,
            max_rps_per_instance=scaling.max_rps_per_instance,
            safety_factor=scaling.safety_factor,
        )
        why = f"{rps:g} requests/s / ({scaling.max_rps_per_instance:g} x {scaling.safety_factor:g})"
        yield ("instances at the peak", str(needed), "sizing", why)
    row = price(one.instance.name, region)
    cost = "unknown" if row is None else f"{usd_per_month(most, row.usd_per_hour):,.0f} $ a month"
    said = (
        f"no source states a price for {one.instance.name}"
        if row is None
        else f"at most, {most} x {row.usd_per_hour:g} $/h x {HOURS_PER_MONTH} h; price of {row.as_of}, "
        f"{row.region}"
    )
    yield ("cost", cost, "sizing", said)


def _shown(value: object) -> str:
    return "-" if value is None else str(value)


def _scaling(environment: Environment, one: Placement) -> Iterator[Said]:
    variant = one.variant
    if variant.serverless is None:
        yield _routing(one)
    scaling = variant.scaling
    if scaling is None:
        return
    if scaling.hold:
        why = "the live number of instances stays, through updates too"
        yield ("scaling", "on hold", "file", why)
        return
    waits = cooldowns(
        out_seconds=scaling.scale_out_cooldown_seconds,
        in_seconds=scaling.scale_in_cooldown_seconds,
        start_seconds=one.start_seconds,
    )
    for name, seconds, stated, why in (
        (
            "scale_out_cooldown_seconds",
            waits.out_seconds,
            scaling.scale_out_cooldown_seconds,
            waits.out_reason,
        ),
        (
            "scale_in_cooldown_seconds",
            waits.in_seconds,
            scaling.scale_in_cooldown_seconds,
            waits.in_reason,
        ),
    ):
        yield (name, str(seconds), "derived" if stated is None else "file", why)
    safety = scaling.safety_factor
    if (rate := scaling.max_rps_per_instance) is not None:
        target = invocations_per_instance_per_minute(
            max_rps_per_instance=rate, safety_factor=safety
        )
        why = f"{rate:g} requests/s x {safety:g} x 60"
        yield ("target, invocations a minute", f"{target:g}", "sizing", why)
    for name, measured in (
        ("target, concurrent requests", scaling.max_concurrency_per_instance),
        ("target, waiting requests", scaling.max_backlog_per_instance),
    ):
        if measured is not None:
            yield (name, f"{measured * safety:g}", "sizing", f"{measured:g} x {safety:g}")


def _routing(one: Placement) -> Said:
    chosen = one.routing
    return (chosen.name, str(chosen.value or "-"), chosen.origin, chosen.reason)


def update_lines(
    environment: Environment, one: Placement, *, running: int | None = None
) -> Iterator[Said]:
    """With the fewest and the most instances, where they differ: scaling decides which it meets.

    `running`: how many there are, where that is known.
    """
    rollout, variant = environment.rollout, one.variant
    if variant.serverless is not None:
        return  # SageMaker's own machines, whatever their number
    least, most = variant.min_instances, variant.most_instances
    if running is not None and variant.scaling is not None:
        least = most = running  # an update keeps what scaling has reached
    if rollout is None:
        at_once = f"up to {2 * most}"
        yield ("instances during an update", at_once, "sizing", QUOTA)
        return
    updates = rollout.updates(
        least=least,
        most=most,
        window_minutes=environment.alarms.window_minutes,
    )
    if not updates:
        return  # min_instances above max_instances: a finding of its own
    start = start_seconds(one.served, processes=one.processes)
    yield ("first share", _shares(updates), "sizing", _asked(rollout))
    at_once = f"up to {max(update.instances_at_once for update in updates)}"
    yield ("instances during an update", at_once, "sizing", f"{QUOTA}, its rollback included")
    earliest = updates[0].earliest_alarm_minutes
    bakes = f"{earliest} min into a bake of {rollout.bake_minutes} min"
    yield ("earliest rollback", bakes, "sizing", f"an alarm must see {counted(earliest, 'minute')}")
    yield ("an update takes", _takes(updates, start), "sizing", _parts(updates, start))


def _shares(updates: list[Update]) -> str:
    ends = updates[:1] + updates[1:][-1:]
    return ", ".join(
        f"{one.steps[0]} of {one.instances} ({one.first_share_percent:.0f} %)" for one in ends
    )


def _asked(rollout: Rollout) -> str:
    return f"{rollout.strategy} of {rollout.percent} %, in whole instances"


def _takes(updates: list[Update], start: float | None) -> str:
    seconds = [one.expected_seconds(start) or float(one.bakes_seconds) for one in updates]
    least, most = (round(end(seconds) / SECONDS_PER_MINUTE) for end in (min, max))
    about = "at least" if start is None else "about"
    return f"{about} {least} min" if least == most else f"{about} {least} to {most} min"


def _parts(updates: list[Update], start: float | None) -> str:
    most = max(updates, key=lambda one: one.bakes_seconds)
    starts = counted(most.starts, "start")
    known = "of unknown length" if start is None else f"of {start:.0f} s"
    bakes = most.bakes_seconds // SECONDS_PER_MINUTE
    longest = max(one.longest_seconds(start) for one in updates) // SECONDS_PER_MINUTE
    return f"{starts} {known}, {bakes} min of bakes; taken back after {longest} min"
