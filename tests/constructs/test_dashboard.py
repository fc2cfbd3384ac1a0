"""One screen: every question's graph, side by side for several variants."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesise, Synthesised, written

SCALED = VALID + (
    "min_instances = 2\nmax_instances = 6\n[variants.primary.scaling]\nmax_rps_per_instance = 164\n"
)
CANARY = '[rollout]\nstrategy = "canary"\n'


def widgets(found: Synthesised) -> list[dict[str, Any]]:
    """Those of the dashboard, with a letter instead of what CloudFormation fills in."""
    parts = found.one("AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else "X" for part in parts)
    return list(json.loads(text)["widgets"])


def titles(found: Synthesised) -> list[str]:
    return [
        widget["properties"].get("title", widget["properties"].get("markdown"))
        for widget in widgets(found)
    ]


@pytest.mark.long
def test_alarms_are_first_fleets_apart_and_an_unknown_price_is_said(synthesise: Synthesise) -> None:
    plain, updated = titles(synthesise()), titles(synthesise(f"{VALID}{CANARY}"))
    assert plain[0] == "ranker: alarms"
    assert [
        len([one for one in each if one.startswith("during an update")])
        for each in (plain, updated)
    ] == [0, 2]
    shown = titles(synthesise(**{"ml.c5.xlarge": "ml.m7i.48xlarge"}))
    assert any("no price of ml.m7i.48xlarge is known" in title for title in shown)


POOLS = """[variants.pools]
model = "ranker"
instance_pools = [{ instance_type = "ml.g4dn.12xlarge" }, { instance_type = "ml.g5.xlarge" }]
[metrics]
enhanced_metrics = true
publish_seconds = 10
[alarms]
p99_latency_ms = 80
error_4xx_percent = 5
[prices]
as_of = "2026-11-29"
instance_usd_per_hour = { "ml.c5.xlarge" = 0.25, "ml.g4dn.12xlarge" = 4, "ml.g5.xlarge" = 1.5 }
"""
BATCH = """[batch.nightly]
model = "ranker"
instance_type = "ml.c5.xlarge"
input = "s3://tables/rows/"
output = "s3://tables/scores/"
content_type = "text/csv"
schedule = "rate(1 day)"
late_minutes = 90
"""
SHARED = """max_instances = 3
[variants.primary.components]
a = { model = "ranker", max_copies = 3, scaling = { max_rps_per_instance = 4 } }
b = { model = "ranker" }
"""
BOARDS = {
    "pools": SCALED + POOLS,
    "queue": f"{VALID}[asynchronous]\n[alarms]\noldest_request_minutes = 60\n",
    "serverless": VALID.replace(
        'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 4 }"
    ),
    "batch": VALID[: VALID.index("[variants")] + BATCH,
    "components": VALID.replace('model = "ranker"\n', "").replace("c5.x", "c6i.2x") + SHARED,
}


def drawn(properties: dict[str, Any]) -> Iterator[str]:
    """Return each series as LABEL = FORMULA, with the metrics instead of their ids, and each line."""
    metrics: dict[str, str] = {}
    series: list[tuple[str, str]] = []
    for *entry, options in properties["metrics"]:
        if "expression" in options:
            series.append((options.get("label", "-"), options["expression"]))
            continue
        namespace, name, *dimensions = entry
        named = dict(zip(dimensions[::2], dimensions[1::2], strict=True))
        of = named.get("InstanceType") or named.get("InferenceComponentName", "")
        text = " ".join(filter(None, (name, options.get("stat", "Average"), of)))
        assert namespace.startswith(("AWS/", "/aws/", "Servable/"))
        text += "" if options["period"] == 60 else f" in {options['period']} s"
        if options.get("visible", True):
            series.append((options.get("label", "-"), text))
        else:
            metrics[options["id"]] = text
    for label, formula in series:
        shown = re.sub(r"\b[a-z]\w*\b", lambda one: metrics.get(one[0], one[0]), formula)
        yield f"  {label} = {shown}"
    for line in properties.get("annotations", {}).get("horizontal", []):
        yield f"  {line['yAxis']} {line['value']}: {line['label']}"


def described(found: Synthesised) -> Iterator[str]:
    """Return the graphs of a dashboard: title, position, and axes, then what each draws."""
    for widget in widgets(found):
        properties = widget["properties"]
        if "metrics" not in properties:
            continue
        axes = " and ".join(f"{side} {axis['label']}" for side, axis in properties["yAxis"].items())
        assert {axis["min"] for axis in properties["yAxis"].values()} == {0}
        yield f"{properties['title']} at {widget['x']}, {widget['y']}: {axes}"
        yield from drawn(properties)


@pytest.mark.parametrize("name", BOARDS)
def test_a_graph_draws_metrics_in_the_unit_of_its_axis(synthesise: Synthesise, name: str) -> None:
    assert [*described(synthesise(BOARDS[name]))] == written("drawn_graphs.txt", name)
