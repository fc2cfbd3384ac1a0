"""Rules about scheduled actions: their time, time zone and range."""

import contextlib
import functools
import itertools
import re
import zoneinfo

from infra.parameters.finding import Severity
from infra.parameters.scaling import Scaling, Scheduled
from infra.parameters.variant import Variant
from infra.preflight.rule import Findings, Parts, Rule, VariantTableRule
from servable_scaling.schedule import ScheduleError, compute_last_run, has_common_minute


class ScheduledRule(Rule):
    """A rule about scheduled actions."""

    def list_parts(self) -> Parts:
        for name, variant in self.environment.variants_by_table.items():
            for action in variant.scaling.schedule if variant.scaling else ():
                yield f"variants.{name}.scaling.schedule", variant, action


class ScalingSchedule(ScheduledRule):
    """A scheduled action without a range does nothing; one whose minimum is above its maximum is rejected.

    Source: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html
    """

    def find_problems(self, key: str, variant: Variant, action: Scheduled) -> Findings:
        least, most = action.at_least, action.at_most
        # For a missing bound, the widest of the variant and all its actions counts.
        planned = variant.scaling.schedule if variant.scaling else []
        lower = [one.at_least for one in planned if one.at_least is not None]
        higher = [one.at_most for one in planned if one.at_most is not None]
        low = min([variant.capacity[0], *lower]) if least is None else least
        high = max([variant.capacity[1], *higher]) if most is None else most
        if least is None and most is None:
            problem = f"{action.at} changes nothing: neither at_least nor at_most is set"
            yield self.build_finding(key, problem, given=action.at, remedy="add one")
        elif low > high:
            note, remedy = "", "lower at_least, or raise at_most"
            is_instances = variant.component is None and not variant.serverless
            if most is None and is_instances and variant.max_instances is None:
                note = "; max_instances is missing, and defaults to min_instances"
                table = key.removesuffix(".scaling.schedule")
                remedy = f"add max_instances = {low} to [{table}], or set at_most"
            elif None in (least, most):
                note = "; the missing bound comes from the variant"
            problem = f"at_least {low} is above at_most {high} ({action.at}){note}"
            given = most if least is None else least
            yield self.build_finding(key, problem, given=given, remedy=remedy)
        elif least == 0 and not (self.environment.kind.can_be_empty or variant.can_sleep):
            yield self.build_finding(
                key,
                f"with at_least 0 ({action.at}) no instance would respond, and requests aren't queued",
                given=least,
                allowed="1 or more; 0 with [asynchronous]",
                remedy="raise it",
                reads=("asynchronous",),
            )


class ScalingScheduleExpression(ScheduledRule):
    """Application Auto Scaling rejects an invalid expression; its cron expressions have six fields.

    Source:
    https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html (2026-11-22),
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html (2026-11-22)
    """

    remedy = "correct the expression"

    def find_problems(self, key: str, variant: Variant, action: Scheduled) -> Findings:
        try:
            compute_last_run(action.at)
        except ScheduleError as wrong:
            problem = f"{action.at}: {wrong}"
            yield self.build_finding(key, problem, given=action.at, allowed=wrong.allowed)


class ScalingScheduleTogether(VariantTableRule, severity=Severity.WARNING):
    """Two actions in one minute run in an order that AWS does not state: either one's range may remain.

    Source:
    https://docs.aws.amazon.com/autoscaling/application/userguide/scheduled-scaling-policy-overview.html
    (2026-11-22)
    """

    table = "scaling"
    key = "variants.{name}.scaling.schedule"
    problem = "{first.at} and {second.at} run in the same minute, and set different bounds"
    remedy = "merge them, or move one to a different minute or day"

    def find_problems(self, name: str, variant: Variant, scaling: Scaling) -> Findings:
        for first, second in itertools.combinations(scaling.schedule, 2):
            bounds = ((first.at_least, second.at_least), (first.at_most, second.at_most))
            differ = any(None not in pair and pair[0] != pair[1] for pair in bounds)
            for low, high in ((first.at_least, second.at_most), (second.at_least, first.at_most)):
                differ |= low is not None and high is not None and low > high
            with contextlib.suppress(ScheduleError):  # ScalingScheduleExpression reports it
                zone = first.timezone == second.timezone
                if differ and zone and has_common_minute(first.at, second.at):
                    yield self.build_finding(given=second.at, first=first, second=second)


class ScalingSchedulePast(ScheduledRule, severity=Severity.WARNING):
    """A scheduled action in the past has no effect.

    Source:
    https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html (2026-11-22)
    """

    remedy = "remove the action, or set a new time"

    def find_problems(self, key: str, variant: Variant, action: Scheduled) -> Findings:
        try:
            last = compute_last_run(action.at)
            zone = zoneinfo.ZoneInfo(action.timezone)
        except (ScheduleError, zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            return  # ScalingScheduleExpression and ScalingTimezone report it
        if last is None:
            return
        if self.loaded.asked_at is None:
            question = "whether a scheduled action is in the past"
            yield self.build_unchecked(key, "the current time: run `servable check`", question)
        elif last.replace(tzinfo=zone) < self.loaded.asked_at:
            problem = f"{action.at} ({action.timezone}) is in the past"
            yield self.build_finding(key, problem, given=action.at)


@functools.cache
def load_time_zones() -> frozenset[str]:
    """Return the names of all time zones. Read their thousand files once in a process."""
    return frozenset(zoneinfo.available_timezones())


def suggest_time_zone(name: str) -> str:
    """Return the remedy for an unknown time zone: a zone, if only one has the name or is of that city."""
    written, zones = name.lower(), load_time_zones()
    found = [one for one in zones if written in (one.lower(), one.rpartition("/")[2].lower())]
    # Etc/GMT+2 is two hours west of Greenwich, but people write GMT+2 for the east.
    if len(found) == 1 and not re.search("[0-9]", name):
        return f"did you mean {found[0]}?"
    return "use an IANA time zone name"


class ScalingTimezone(ScheduledRule):
    """Application Auto Scaling accepts names in the IANA time zone database.

    Source: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html
    (Timezone)
    """

    allowed = "names such as Europe/Berlin, America/New_York, UTC"

    def find_problems(self, key: str, variant: Variant, action: Scheduled) -> Findings:
        zone, zones = action.timezone, load_time_zones()
        if not zones:
            question = f"whether {zone!r} is a time zone"
            yield self.build_unchecked(key, "a time zone database: install tzdata", question)
        elif zone not in zones:
            problem, remedy = f"{zone!r} is not a time zone", suggest_time_zone(zone)
            yield self.build_finding(key, problem, given=zone, remedy=remedy)
