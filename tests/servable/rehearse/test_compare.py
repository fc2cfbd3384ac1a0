"""`servable rehearse --compare`: policies on the same random days, and a diff where the best is better."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from infra.parameters.loading import ValidFile
from infra.parameters.placement import placement
from servable.rehearse.alternatives import alternatives
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
from servable.rehearse.comparison_output import lines
from servable_scaling.rehearsal.fleet import InstanceModel
from servable_scaling.rehearsal.queueing import Service
from servable_scaling.rehearsal.scenario import Scenario
from servable_scaling.rehearsal.traffic import random_day
from tests.servable.rehearse.test_rehearse import SCALED

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
        return alternatives(options, placed, servers=4)

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


def test_without_a_name_minimums_targets_and_concurrency_are_tried(
    tried: Callable[..., list[Any]],
) -> None:
    found = tried("")
    assert "target 60 %, minimum 4, concurrency 4" in labels(found)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("targets=40", "allowed names: target, minimum"),
        ("target=0", "above 0 and at most 100"),
        ("target=", "a value is empty"),
        ("schedule=7-20@6", "expected none, or HH:MM-HH:MM@COUNT"),
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


def test_the_best_is_the_cheapest_that_holds() -> None:
    holds, cheap = compared((12, 0)), compared((9, 5))
    assert chosen([compared((14, 0)), holds, cheap], allowed_minutes=0) is holds


def test_where_nothing_holds_the_best_has_the_fewest_minutes() -> None:
    fewest = compared((20, 2))
    assert chosen([compared((9, 5)), fewest], allowed_minutes=1) is fewest


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
    answer = CliRunner().invoke(rehearse, ["prod", *day, "--compare", "minimum=1,4,99"])
    screen, after = answer.output, (root / "environments" / "prod.toml").read_text()
    said = (
        "better than the file's policy: minimum 4: " in screen,
        "min_instances = 4 #" in after,
        "left out: 1 policy, such as minimum 99: " in screen,
    )
    assert said == (True, True, True), screen
