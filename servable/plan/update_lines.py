"""What an update of one variant comes to: its real share, capacity, alarms and time, in words."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.rollout import Rollout
from infra.policy.sizing import start_seconds
from infra.policy.update import SECONDS_PER_MINUTE, Update
from infra.preflight.placement import Placement
from infra.preflight.rendering import counted

QUOTA = "what the account's quota must allow"

Said = tuple[str, str, str, str]
"""Name, value, origin and reason, as `servable check --explain` shows a line."""


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
    yield ("instances during an update", at_once, "sizing", QUOTA)
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
