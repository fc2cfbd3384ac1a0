"""List every chosen setting of an environment with its reason (`servable check --explain`)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from infra.parameters.batch.job import list_batch_jobs
from infra.parameters.environment import Environment
from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement, list_placements, list_variant_placements
from infra.parameters.rollout import FAULTS, MOST_ALARMS, Rollout
from infra.parameters.variant import Variant
from infra.policy import sizing
from infra.policy.container import Batching, find_variable
from infra.policy.derived_settings import Choice, compute_cooldowns, compute_target_invocations
from infra.policy.update import SECONDS_PER_MINUTE, Update
from infra.preflight.rendering import format_count

# Fault -> what sees it if no alarm does; "": an alarm sees it if the file sets the alarm.
UNSEEN = {
    "": "no alarm sees it; add [rollout.golden_requests], or alarms.model_error_percent with rollback_on_4xx",
    "answers slowly": "no alarm sees it; set alarms.p99_latency_ms",
    "answers wrongly": "no alarm sees it; `servable verify` compares golden responses after the deployment",
}
QUOTA = "the account's quota must allow this number"

Said = tuple[str, str, str, str]
"""(name, value, origin, reason) of one line."""


@dataclass(frozen=True)
class ExplainedSetting:
    """One setting of one variant or of one batch, with its reason."""

    variant: str
    """The variant's name; a batch's after the word batch."""
    name: str
    value: str
    origin: str
    """file, derived, image (the image's default), or sizing (computed, not set)."""
    reason: str

    @property
    def variable(self) -> str:
        """Return the container environment variable of the setting, or "" if it has none."""
        return find_variable(self.name) or ""


def explain_settings(loaded: Loaded) -> list[ExplainedSetting]:
    """Return the settings of each known instance type and model; [] for an unreadable file."""
    if loaded.draft is None:
        return []
    settings = []
    for placed in list_placements(loaded.draft):
        name = placed.name if placed.pool is None else f"{placed.name}, {placed.instance.name}"
        settings += [ExplainedSetting(name, *line) for line in _list_lines(loaded.draft, placed)]
    for name, variant in loaded.draft.variants.items():
        shared = _list_shared_instances(loaded.draft, variant)
        settings += [ExplainedSetting(name, *line) for line in shared]
    for job in list_batch_jobs(loaded.draft):
        for choice in (*job.choices, *job.derived_settings.choices, job.placement.version):
            if isinstance(choice.value, Batching):
                size = choice.value.max_batch_size
                choice = replace(choice, name="batching.max_batch_size", value=size)
            settings.append(ExplainedSetting(f"batch {job.name}", *_convert_choice(choice)))
    return settings


def _list_lines(environment: Environment, placed: Placement) -> Iterator[Said]:
    for choice in placed.derived.choices:
        if isinstance(choice.value, Batching):
            yield from _list_batching(placed, choice.value, choice.reason)
        else:
            yield _convert_choice(choice)
    yield _convert_choice(placed.version)
    if placed.variant.has_copies:
        yield _convert_choice(placed.copy_memory_mib)
        yield _convert_choice(placed.copy_cpus)
        if placed.whole_instance.gpus:
            yield _convert_choice(placed.copy_gpus)
    if placed.instance.gpus:
        yield _convert_choice(placed.driver)
    if placed.variant.serverless is None:  # SageMaker sets the timeouts of the others
        yield from map(_convert_choice, placed.timeouts.values())
    yield from _list_sizes(placed, environment)
    yield from _list_scaling(environment, placed)
    if placed.variant.component is None:
        yield from _list_cost(environment, placed.variant)
        yield from list_update_lines(environment, placed)


def _list_shared_instances(environment: Environment, variant: Variant) -> Iterator[Said]:
    """Yield the instances that all copies of components need, and their cost."""
    several = [list_variant_placements(environment, name) for name in variant.components]
    placed = [each for placements in several for each in placements]
    if not placed or variant.instance_type is None:
        return
    copies = [
        (each.copy_cpus.value, each.copy_gpus.value, each.copy_memory_mib.value)
        for each in placed
        for _ in range(each.variant.capacity[1])
    ]
    room = sizing.compute_copy_room(placed[0].whole_instance)
    needed = sizing.count_instances_for_copies(copies, room)
    why = f"{len(copies)} copies, packed on {variant.instance_type} by their reservations, largest first"
    yield ("instances at max_copies", str(needed or "none has room"), "sizing", why)
    yield from _list_cost(environment, variant)


def _list_batching(placed: Placement, chosen: Batching, reason: str) -> Iterator[Said]:
    written = placed.variant.container.batching
    stated = written.model_fields_set if written else set()
    for name, value in chosen:
        if name in stated:
            origin, why = "file", "from the file"
        elif name in ("batch_threads", "max_enqueued_batches"):
            origin, why = "derived", reason
        else:
            origin, why = "image", "the image's default"
        yield (f"batching.{name}", str(value), origin, why)


def _convert_choice(choice: Choice[Any]) -> Said:
    value = "-" if choice.value is None else str(choice.value)
    return choice.name, value, choice.origin, choice.reason


def _list_sizes(placed: Placement, environment: Environment) -> Iterator[Said]:
    """Yield memory, start time, instances at the peak, and the serverless cost note."""
    counts = {"processes": placed.processes, "workers": placed.workers}
    if (used := sizing.compute_memory(placed.instance, placed.served, **counts)) is not None:
        parts = f"servers {used.servers_gib:.1f}, workers {used.workers_gib:.1f}"
        why = f"{parts}, system {used.system_gib:.1f} of {placed.instance.memory_gib:g} GiB"
        yield ("memory", f"{used.total_gib:.1f} GiB", "sizing", why)
    if placed.variant.serverless is not None:
        why = "billed by use: memory, duration and provisioned concurrency"
        yield ("cost", "by use", "sizing", why)
        return
    if (start := placed.start_seconds) is not None:
        own = ("sizing", "boot, download, unpack and load, estimated")
        of = ("file", "as seen") if placed.variant.start_seconds else own
        yield ("start", f"{start:.0f} s", *of)
    scaling, peak = placed.variant.scaling, environment.traffic.peak_rps
    share = environment.compute_share(placed.name)
    if scaling and scaling.max_rps_per_instance and peak is not None and share is not None:
        rps, rate, safety = peak * share, scaling.max_rps_per_instance, scaling.safety_factor
        needed = sizing.count_instances(rps, max_rps_per_instance=rate, safety_factor=safety)
        why = f"{rps:g} requests/s / ({rate:g} x {safety:g})"
        yield ("instances at the peak", str(needed), "sizing", why)


def _list_cost(environment: Environment, variant: Variant) -> Iterator[Said]:
    """Yield the cost of the maximum number of instances; nothing for a serverless variant."""
    if variant.instance_type is None:
        return
    most, prices = variant.instance_limit, environment.prices
    row = prices.find_instance_price(variant.instance_type, environment.region)
    if row is None:
        yield ("cost", "unknown", "sizing", f"no price is known for {variant.instance_type}")
        return
    price = f"price of {row.as_of}, {row.region}"
    why = f"at most, {most} x {row.usd_per_hour:g} $/h x {sizing.HOURS_PER_MONTH} h; {price}"
    usd = sizing.compute_usd_per_month(most, row.usd_per_hour)
    yield ("cost", f"{usd:,.0f} $ a month", "sizing", why)


def _list_scaling(environment: Environment, placed: Placement) -> Iterator[Said]:
    variant = placed.variant
    if variant.serverless is None:
        yield _convert_choice(placed.routing)
    scaling = variant.scaling
    if scaling is None:
        return
    if scaling.hold:
        why = "scaling is on hold, so the number of instances stays the same during updates"
        yield ("scaling", "on hold", "file", why)
        return
    waits = compute_cooldowns(
        out_seconds=scaling.scale_out_cooldown_seconds,
        in_seconds=scaling.scale_in_cooldown_seconds,
        start_seconds=placed.start_seconds,
    )
    for name, seconds, why in (
        ("scale_out_cooldown_seconds", waits.out_seconds, waits.out_reason),
        ("scale_in_cooldown_seconds", waits.in_seconds, waits.in_reason),
    ):
        origin = "derived" if getattr(scaling, name) is None else "file"
        yield (name, str(seconds), origin, why)
    safety = scaling.safety_factor
    if (rate := scaling.max_rps_per_instance) is not None:
        target = compute_target_invocations(max_rps_per_instance=rate, safety_factor=safety)
        why = f"{rate:g} requests/s x {safety:g} x 60"
        yield ("target, invocations a minute", f"{target:g}", "sizing", why)
    for name, measured in (
        ("target, concurrent requests", scaling.max_concurrency_per_instance),
        ("target, waiting requests", scaling.max_backlog_per_instance),
    ):
        if measured is not None:
            yield (name, f"{measured * safety:g}", "sizing", f"{measured:g} x {safety:g}")


def list_update_lines(
    environment: Environment, placed: Placement, *, running: int | None = None
) -> Iterator[Said]:
    """Yield what an update does with the fewest and the most instances, or with those `running`."""
    rollout, variant = environment.rollout, placed.variant
    if variant.serverless is not None:
        return  # SageMaker manages the instances
    least, most = variant.min_instances, variant.instance_limit
    if running is not None and variant.scaling is not None:
        least = most = running  # an update keeps what scaling has reached
    if rollout is None:
        yield ("instances during an update", f"up to {2 * most}", "sizing", QUOTA)
        return
    window = environment.window_minutes
    updates = rollout.list_updates(least=least, most=most, window_minutes=window)
    if not updates:
        return  # min_instances above max_instances: another rule reports it
    start = placed.start_seconds
    why = f"{rollout.strategy} of {rollout.percent} %, in whole instances"
    shares = ", ".join(
        f"{update.steps[0]} of {update.instances} ({update.first_share_percent:.0f} %)"
        for update in updates[:1] + updates[1:][-1:]
    )
    yield ("first share", shares, "sizing", why)
    at_once = f"up to {max(update.instances_at_once for update in updates)}"
    yield ("instances during an update", at_once, "sizing", f"{QUOTA}, its rollback included")
    earliest = updates[0].window_minutes
    bakes = f"{earliest} min into a bake of {rollout.bake_minutes} min"
    why = f"an alarm needs {format_count(earliest, 'minute')} to detect a fault"
    yield ("earliest rollback", bakes, "sizing", why)
    if not variant.shadow:
        yield _describe_rollback_alarms(environment, rollout, placed.name, updates)
        yield from _list_fault_outcomes(environment, rollout)
    seconds = [update.estimate_seconds(start) or float(update.bakes_seconds) for update in updates]
    short, long = (round(end(seconds) / SECONDS_PER_MINUTE) for end in (min, max))
    about = "at least" if start is None else "about"
    takes = f"{about} {short} min" if short == long else f"{about} {short} to {long} min"
    yield ("an update takes", takes, "sizing", _describe_duration(updates, start))


def _describe_rollback_alarms(
    environment: Environment, rollout: Rollout, name: str, updates: list[Update]
) -> Said:
    watched = rollout.list_rollback_alarms(
        environment.alarms, variants=list(environment.production_variants), kind=environment.kind
    )[:MOST_ALARMS]
    kinds = [kind for variant, kind in watched if variant in (name, None)]
    if not rollout.rollback_on_4xx:
        why = "rollback_on_4xx is false, so 4xx responses don't count"
    elif {"4xx", "model-errors"}.isdisjoint(kinds):
        why = "to count 4xx, set alarms.error_4xx_percent or alarms.model_error_percent"
    elif all(update.first_share_percent < 100 for update in updates):
        why = "4xx above the old fleet's percentage count, where AWS publishes errors by fleet"
    else:
        why = "all 4xx count, because the first share is the whole fleet"
    return "rolled back by", ", ".join(kinds), "sizing", why


def _list_fault_outcomes(environment: Environment, rollout: Rollout) -> Iterator[Said]:
    """Yield the outcome of an update to a model with each fault, which affects every request."""
    for fault in FAULTS:
        kinds = rollout.list_alarms_for_fault(fault, environment.alarms, kind=environment.kind)
        minutes = environment.window_minutes
        if "golden-requests" in kinds:  # their alarm is a minute earlier than the others
            minutes = max(1, minutes - 1)
        value = f"back after {format_count(minutes, 'minute')}" if kinds else "goes live"
        why = f"seen by {', '.join(kinds)}" if kinds else UNSEEN.get(fault, UNSEEN[""])
        yield f"a model that {fault}", value, "sizing", why


def _describe_duration(updates: list[Update], start: float | None) -> str:
    most = max(updates, key=lambda update: update.bakes_seconds)
    starts = format_count(most.start_count, "start")
    known = "of unknown length" if start is None else f"of {start:.0f} s"
    bakes = most.bakes_seconds // SECONDS_PER_MINUTE
    longest = max(update.compute_timeout(start) for update in updates) // SECONDS_PER_MINUTE
    return f"{starts} {known}, {bakes} min of baking; rolled back if it takes over {longest} min"
