"""Rules about an update from the file at another revision: what SageMaker refuses, and what it does not."""

from dataclasses import replace
from pathlib import Path

import pytest

from infra.parameters.loading import Loaded, build_deployed_variants, load
from infra.preflight.check import check
from tests.conftest import valid
from tests.findings import Message, message
from tests.preflight.overlay import SERVERLESS, overlaid

SCALED = "variants.primary.scaling.max_rps_per_instance = 100\nvariants.primary.max_instances = 2\n"
POOLS = """\
[[variants.primary.instance_pools]]
instance_type = "ml.c5.xlarge"
[[variants.primary.instance_pools]]
instance_type = "ml.m5.xlarge"
"""
SECOND = 'variants.second = { model = "ranker", instance_type = "ml.c5.xlarge" }\n'
SCALING = "max_instances = 2, scaling = { max_rps_per_instance = 100 }"
SECOND_SCALED = SECOND.replace(" }", f", {SCALING} }}")
QUEUE = "[asynchronous]\n"
ROLLOUT = 'alarms.p99_latency_ms = 100\nrollout.strategy = "all_at_once"\n'


def read(project: Path, lines: str) -> Loaded:
    if lines != SERVERLESS:
        return overlaid(project, lines)
    (project / "environments" / "prod.toml").write_text(lines)
    (loaded,) = load(project, project / "environments")
    return loaded


def changes(project: Path, old: str, new: str) -> dict[str, Message]:
    """The findings of the rules change-*, by the rule."""
    before = valid(read(project, old)).environment
    deployed = build_deployed_variants(before)
    found = check(replace(read(project, new), against="HEAD", before=before, deployed=deployed))
    return {one.rule: message(one) for one in found if one.rule.startswith("change-")}


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        ("", SCALED, []),
        (QUEUE, "", ["change-async-removed"]),
        (QUEUE, 'endpoint.name = "another"', []),
        (SCALED, 'variants.primary.instance_type = "ml.m5.xlarge"', ["change-type-while-scaled"]),
        (SCALED, POOLS, ["change-type-while-scaled"]),
        (SCALED + "variants.primary.scaling.hold = true", POOLS, []),
        (SECOND, "", []),
        (SECOND_SCALED, "", ["change-variant-removed-while-scaled"]),
        ("", ROLLOUT + SECOND, ["change-variants-under-rollout"]),
        (ROLLOUT, SECOND, []),
    ],
)
def test_a_refused_update_is_an_error(project: Path, old: str, new: str, rules: list[str]) -> None:
    assert list(changes(project, old, new)) == rules


def test_instances_do_not_become_serverless_and_no_way_leads_back(project: Path) -> None:
    for old in ["", SCALED]:
        said = changes(project, old, SERVERLESS)
        problem = "SageMaker cannot make variant primary serverless: the endpoint runs on instances"
        assert {rule: one.problem for rule, one in said.items()} == {
            "change-instances-to-serverless": f"against HEAD: {problem}"
        }
    for new, key in [("", "instance_type"), (POOLS, "instance_pools")]:
        assert changes(project, SERVERLESS, new) == {
            "change-serverless-to-instances": (
                f"variants.primary.{key}",
                "it is serverless in HEAD: SageMaker accepts a change to instances, but rejects the "
                "change back, even to restore the old file",
                "",
                "keep serverless, or try instances in a different environment first",
            )
        }


def test_a_serverless_variant_that_stays_and_a_new_environment_are_no_change(project: Path) -> None:
    assert changes(project, SERVERLESS, SERVERLESS) == {}

    loaded = overlaid(project, QUEUE + SECOND_SCALED)
    found = check(replace(loaded, against="HEAD", before=None, deployed={}))
    assert [one for one in found if one.rule.startswith("change-")] == []


def test_what_is_scaled_is_held_before_it_changes_or_goes(project: Path) -> None:
    new = SCALED + 'variants.primary.instance_type = "ml.m5.xlarge"'
    scaled = "the variant is scaled in HEAD: its instance type cannot change from ml.c5.xlarge to"
    assert changes(project, SCALED, new)["change-type-while-scaled"] == (
        "variants.primary.instance_type",
        f"{scaled} ml.m5.xlarge in one update",
        "",
        "first deploy with -c prod.variants.primary.scaling.hold=true -c "
        "prod.variants.primary.instance_type=ml.c5.xlarge, then without",
    )
    assert changes(project, SCALED, SCALED + POOLS)["change-type-while-scaled"] == (
        "variants.primary.instance_pools",
        f"{scaled} ml.c5.xlarge, else ml.m5.xlarge in one update",
        "",
        "first deploy the old file with variants.primary.scaling.hold = true, then this one",
    )
    assert changes(project, SECOND_SCALED, "")["change-variant-removed-while-scaled"] == (
        "variants",
        "variant second of HEAD has autoscaling: it cannot be removed in one update",
        "",
        "first deploy it with hold = true in [variants.second.scaling], then remove it",
    )
