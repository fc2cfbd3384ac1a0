"""`servable rehearse --compare`: policies on the same random days, and a diff where the best is better."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import click
import pytest
from click.testing import CliRunner

from infra.parameters.loading import ValidFile
from infra.parameters.placement import placement
from infra.parameters.rehearsal_scenario import MeasuredInstance, scenario
from servable.rehearse.alternatives import alternatives
from servable.rehearse.candidates import PolicyProposal
from servable.rehearse.command import rehearse
from servable.rehearse.comparison import (
    DayResult,
    PolicyComparison,
    PolicyResult,
    PolicyTrial,
    chosen,
    interval,
    judged,
    unbeaten,
)
from servable.rehearse.comparison_output import as_json, lines
from servable.rehearse.day_schedule import _few
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.queueing import Service
from servable_scaling.rehearsal.scenario import Scenario
from servable_scaling.rehearsal.traffic import random_day
from tests.servable.rehearse.test_rehearse import SCALED

SCHEDULE = "variants.primary.scaling.schedule"
Write = Callable[..., ValidFile]
# Six times as many requests at once: only a larger minimum holds the objective.
HOUR = "".join(f"{minute},{3000 if minute < 20 else 18_000}\n" for minute in range(40))
SPARSE = SCALED.replace("min_instances = 2", "min_instances = 1").replace(
    "safety_factor = 0.7", "safety_factor = 1.0"
)


@pytest.fixture
def tried(environment: Write) -> Callable[..., list[Any]]:
    def of(*options: str, text: str = SCALED) -> list[Any]:
        loaded = environment(text)
        assert isinstance(loaded, ValidFile)
        placed = placement(loaded.environment, "primary")
        assert placed is not None
        requests = [6000.0] * 600 + [24_000.0] * 60 + [6000.0] * 780
        instance = MeasuredInstance(rate_rps=100, p50_ms=38, p99_ms=50, source="given")
        return alternatives(
            options, placed, scenario(loaded.environment, placed, requests, instance)
        )

    return of


def labels(several: list[Any]) -> list[str]:
    return [one.label for one in several]


def test_every_combination_is_tried_after_the_file_itself(tried: Callable[..., list[Any]]) -> None:
    assert labels(tried("target=40,60", "minimum=2,3")) == [
        "the file",
        "target 40 %, minimum 2",
        "target 40 %, minimum 3",
        "target 60 %, minimum 2",
        "target 60 %, minimum 3",
    ]


def test_any_key_may_have_several_values(tried: Callable[..., list[Any]]) -> None:
    key = "variants.primary.scaling.steps"
    several = tried(f"{key}=[],[{{ above_rps = 90, change = 2 }}]")
    assert [one.sets for one in several] == [
        {},
        {key: "[]"},
        {key: "[{ above_rps = 90, change = 2 }]"},
    ]


def test_a_schedule_ends_with_the_minimum_that_is_tried_with_it(
    tried: Callable[..., list[Any]],
) -> None:
    (_, found) = tried("schedule=07:30-20:00@6", "minimum=3")
    assert found.sets["variants.primary.scaling.schedule"] == (
        '[{ at = "cron(30 7 * * ? *)", at_least = 6 }, { at = "cron(0 20 * * ? *)", at_least = 3 }]'
    )


def test_another_instance_type_brings_its_rate(tried: Callable[..., list[Any]]) -> None:
    (_, found) = tried("instance-type=ml.c5.4xlarge@300")
    assert (found.rate_rps, dict(found.sets)) == (
        300,
        {
            "variants.primary.instance_type": '"ml.c5.4xlarge"',
            "variants.primary.scaling.max_rps_per_instance": "300",
        },
    )


def test_without_a_name_minimums_targets_a_schedule_and_concurrency_are_tried(
    tried: Callable[..., list[Any]],
) -> None:
    wanted = {"target 60 %, minimum 4, schedule day", "minimum 4, concurrency 4"}
    assert wanted <= set(labels(tried("")))


# Of the requests of 10:00 to 11:00, an hour earlier and half an hour later, with the start.
def test_a_schedule_of_the_day_raises_the_minimum_before_the_traffic_comes(
    tried: Callable[..., list[Any]],
) -> None:
    (_, found) = tried("schedule=day")
    times = re.findall(r"cron\((\d+) (\d+) .*?at_least = (\d+)", found.sets[SCHEDULE])
    busy = max(int(count) for *_, count in times)
    (begin,) = [(int(hour), int(minute)) for minute, hour, count in times if int(count) == busy]
    assert ((9, 0) <= begin < (10, 0), busy > 4) == (True, True)


def test_a_schedule_of_the_day_changes_at_most_eight_times(tried: Callable[..., list[Any]]) -> None:
    parts = [(minute, 1 + (minute // 30) % 7) for minute in range(0, 1440, 30)]
    assert len(_few(parts)) <= 8


def test_where_changes_are_left_out_no_part_has_fewer_instances() -> None:
    parts = [(minute, 1 + (minute * 7 // 30) % 11) for minute in range(0, 1440, 30)]
    kept = _few(parts)
    in_force = [max((k for k in kept if k[0] <= at), default=kept[-1])[1] for at, _ in parts]
    assert all(has >= needs for has, (_, needs) in zip(in_force, parts, strict=True))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("targets=40", "allowed names: target, minimum"),
        ("target=0", "above 0 and at most 100"),
        ("target=", "a value is empty"),
        ("schedule=7-20@6", "expected none, day, or HH:MM-HH:MM@COUNT"),
        ("instance-type=ml.c5.4xlarge", "write ml.c5.4xlarge@RATE"),
        ("instance-type=ml.c5.4xlrge@1", "did you mean ml.c5.4xlarge?"),
        ("minimum=" + ",".join(map(str, range(501))), "allowed: at most 500"),
    ],
)
def test_what_cannot_be_tried_is_refused_with_the_way_to_write_it(
    tried: Callable[..., list[Any]], option: str, said: str
) -> None:
    with pytest.raises(click.UsageError, match=said.replace("?", r"\?")):
        tried(option)


def test_a_random_day_is_the_same_for_everything_that_is_compared() -> None:
    assert random_day([100.0] * 50, 7) == random_day([100.0] * 50, 7)


def test_random_days_differ() -> None:
    assert random_day([100.0] * 50, 7) != random_day([100.0] * 50, 8)


SCENARIO = Scenario(
    requests=[1.0],
    model=InstanceModel(1, Service(0.1, 0.1), 1),
    routing="random",
    resource="endpoint/a/variant/b",
    instances=1,
    start_minutes=1,
)


def compared(*days: tuple[float, int]) -> PolicyResult:
    """(cost, minutes outside) of each day."""
    candidate = PolicyTrial(alternative=None, scenario=SCENARIO, per_hour=1)  # type: ignore[arg-type]
    return PolicyResult(trial=candidate, days=[DayResult(cost, broken, 0) for cost, broken in days])


def test_what_is_dearer_and_holds_no_better_is_beaten() -> None:
    found = unbeaten([compared((10, 3)), compared((11, 3)), compared((12, 0)), compared((9, 5))])
    assert [one.unbeaten for one in found] == [True, False, True, True]


def test_what_costs_the_same_and_holds_worse_is_beaten() -> None:
    found = unbeaten([compared((10, 3)), compared((10, 2))])
    assert [one.unbeaten for one in found] == [False, True]


@pytest.mark.parametrize(
    ("days", "said"),
    [([(10, 3), (11, 3)], "1 is beaten:"), ([(10, 3), (11, 3), (12, 3)], "2 are beaten:")],
)
def test_the_beaten_are_counted_in_english(days: list[tuple[float, int]], said: str) -> None:
    found = unbeaten([compared(day) for day in days])
    made = PolicyComparison(compared=found, best=found[0], advantage=None, days=1, left_out={})
    assert said in next(lines(made, priced=True))


@pytest.mark.parametrize(("best", "verdict"), [(True, "holds"), (False, "does not hold")])
def test_json_says_whether_a_policy_holds_the_objective(best: bool, verdict: str) -> None:
    found = [replace(compared((10, 3)), trial=MagicMock())]
    made = PolicyComparison(
        compared=found, best=found[0] if best else None, advantage=None, days=1, left_out={}
    )
    proposed = PolicyProposal(file=Path("prod.toml"), after="", diff="")
    assert as_json(made, proposed, priced=True, write=False)["verdict"] == verdict


def test_the_best_is_the_cheapest_that_holds() -> None:
    holds, cheap, dear = compared((12, 0)), compared((9, 5)), compared((14, 0))
    assert chosen([dear, holds, cheap], allowed_minutes=0) == [holds, dear]


def test_what_breaks_the_objective_on_one_day_is_not_the_best() -> None:
    assert chosen([compared((9, 0), (9, 0), (9, 1))], allowed_minutes=0) == []


def test_what_refuses_less_is_not_beaten_by_what_is_cheaper() -> None:
    cheap, spares = compared((10, 3)), compared((11, 3))
    refuses = replace(cheap, days=[replace(cheap.days[0], refused_share=0.2)])
    assert [each.unbeaten for each in unbeaten([refuses, spares])] == [True, True]


def test_an_interval_is_students() -> None:
    # 1 to 5: mean 3, standard deviation 1.5811, t of 4 is 2.776: 3 +- 1.963.
    assert interval([1, 2, 3, 4, 5]) == pytest.approx((3, 1.037, 4.963), abs=0.01)


def test_a_saving_that_differs_from_day_to_day_does_not_hold() -> None:
    file = compared(*[(10, 0)] * 6)
    best = compared((9, 0), (12, 0), (8, 0), (11, 0), (9, 0), (10.5, 0))
    assert not judged(file, best, allowed_minutes=0).holds


def test_a_saving_on_every_day_holds() -> None:
    file = compared(*[(10 + day, 0) for day in range(6)])
    best = compared(*[(9 + 1.01 * day, 0) for day in range(6)])
    assert judged(file, best, allowed_minutes=0).holds


def test_what_saves_and_breaks_the_objective_does_not_hold() -> None:
    assert not judged(compared(*[(10, 0)] * 6), compared(*[(9, 1)] * 6), allowed_minutes=0).holds


def test_the_best_is_written_where_its_advantage_holds(
    environment: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = environment(SPARSE).root
    monkeypatch.chdir(root)
    (tmp_path / "hour.csv").write_text(HOUR)
    day = ("--traffic", str(tmp_path / "hour.csv"), "--days", "5", "--write")
    answer = CliRunner().invoke(rehearse, ["prod", *day, "--compare", "minimum=1,9,99"])
    screen, after = answer.output, (root / "environments" / "prod.toml").read_text()
    said = (
        "better than the file's policy: minimum 9: " in screen,
        "min_instances = 9 #" in after,
        "left out: 1 policy, such as minimum 99: " in screen,
    )
    assert said == (True, True, True), screen
