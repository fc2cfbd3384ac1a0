"""One screen: every question's graph, side by side for several variants."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised
from tests.constructs.used_metrics import body

Synthesise = Callable[..., Synthesised]
SCALED = VALID + (
    "min_instances = 2\nmax_instances = 6\n[variants.primary.scaling]\nmax_rps_per_instance = 164\n"
)
SECOND = '[variants.challenger]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\n'


def widgets(found: Synthesised) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = body(found.one("AWS::CloudWatch::Dashboard"))["widgets"]
    return made


def titles(found: Synthesised) -> list[str]:
    return [
        widget["properties"].get("title", widget["properties"].get("markdown"))
        for widget in widgets(found)
    ]


def graph(found: Synthesised, part: str) -> dict[str, Any]:
    (one,) = [
        widget["properties"] for widget in widgets(found) if part in str(widget["properties"])[:200]
    ]
    return dict(one)


def test_it_shows_state_traffic_latency_errors_saturation_instances_cost_and_log(
    synthesise: Synthesise,
) -> None:
    assert titles(synthesise()) == [
        "ranker: alarms",
        "primary: requests per minute",
        "primary: latency (ms)",
        "primary: errors (%)",
        "primary: saturation (%)",
        "primary: instances that answer, of ml.c5.xlarge",
        "primary: cost per hour (USD, us (region not stated), 2025-01)",
        "ranker: counted in the log, per minute",
    ]


def test_several_variants_stand_side_by_side_and_one_alone_where_it_has_a_graph(
    synthesise: Synthesise,
) -> None:
    placed = {
        widget["properties"]["title"]: (widget["y"], widget["width"])
        for widget in widgets(synthesise(VALID + SECOND))
        if "title" in widget["properties"]
    }
    assert placed["primary: latency (ms)"] == placed["challenger: latency (ms)"]

    metrics = "[metrics]\nenhanced_metrics = true\npublish_seconds = 60\n"
    gpu = SECOND.replace("ml.c5.xlarge", "ml.g5.xlarge")
    shown = titles(synthesise(VALID + gpu + metrics))
    assert [title.partition(":")[0] for title in shown if "GPU by accelerator" in title] == [
        "challenger"
    ]


def test_instances_are_drawn_between_min_and_max_and_percent_of_the_whole_machine(
    synthesise: Synthesise,
) -> None:
    lines = graph(synthesise(SCALED), "instances that answer")["annotations"]["horizontal"]
    assert [(line["value"], line["label"]) for line in lines] == [(2, "min 2"), (6, "max 6")]
    shown = graph(synthesise(), "saturation")["metrics"][0][0]
    assert (shown["label"], shown["expression"]) == ("CPU, mean", "m0 / 4")


def test_cost_is_the_instances_times_a_price_that_a_source_states(synthesise: Synthesise) -> None:
    shown = graph(synthesise(), "cost per hour")["metrics"][0][0]
    assert shown["expression"] == "requests / per_instance * 0.204"
    found = synthesise(**{"ml.c5.xlarge": "ml.m7i.48xlarge"})
    assert "no price of ml.m7i.48xlarge is known" in graph(found, "cost per hour")["markdown"]


@pytest.mark.parametrize(("rollout", "count"), [("", 0), ('[rollout]\nstrategy = "canary"\n', 2)])
def test_the_fleets_of_a_guarded_update_are_shown_apart(
    synthesise: Synthesise, rollout: str, count: int
) -> None:
    found = titles(synthesise(VALID + rollout))
    assert len([one for one in found if one.startswith("during an update")]) == count
