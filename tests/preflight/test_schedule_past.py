"""A scheduled action that is over is a warning of `servable check`; synth, without a clock, does not know."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from infra.parameters.finding import Severity
from infra.preflight.check import check, check_all
from tests.findings import Message, messages
from tests.preflight.overlay import overlaid

AT = "at(2026-12-24T18:00:00)"
ACCEPTED = '[acknowledge]\nscaling-schedule-past = "kept to remember it"\n'
RULE = "scaling-schedule-past"


def scheduled(at: str, zone: str = "UTC") -> str:
    action = f'{{ at = "{at}", timezone = "{zone}", at_least = 1, at_most = 2 }}'
    return f"variants.primary.max_instances = 2\nvariants.primary.scaling.schedule = [{action}]\n"


def said(project: Path, lines: str, now: datetime) -> list[Message]:
    loaded = replace(overlaid(project, lines), asked_at=now)
    return messages(finding for finding in check(loaded) if finding.rule == RULE)


def test_an_action_is_over_after_its_time_in_its_zone_or_its_last_year(project: Path) -> None:
    for second, zone, over in [
        (0, "UTC", False),
        (1, "UTC", True),
        (1, "America/New_York", False),
        (0, "Europe/Berlin", True),
    ]:
        now = datetime(2026, 12, 24, 18, 0, second, tzinfo=UTC)
        found = [
            (
                "variants.primary.scaling.schedule",
                f"{AT} ({zone}) is in the past",
                "",
                "remove the action, or set a new time",
            )
        ]
        assert said(project, scheduled(AT, zone), now) == (found if over else [])
    for year, over in [(2026, False), (2027, True)]:
        lines = scheduled("cron(0 7 ? * MON 2025-2026)")
        assert bool(said(project, lines, datetime(year, 7, 1, tzinfo=UTC))) is over


def test_without_a_clock_it_is_not_checked_and_its_acceptance_is_no_error(project: Path) -> None:
    found = [one for one in check_all(overlaid(project, scheduled(AT))) if one.rule == RULE]
    assert [one.severity for one in found] == [Severity.NOT_CHECKED]
    assert [str(finding) for finding in check(overlaid(project, scheduled(AT) + ACCEPTED))] == []
