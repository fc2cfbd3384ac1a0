"""Updates in whole instances and minutes, and those that SageMaker refuses: each row on both sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.policy.update import (
    REFUSED_UPDATES,
    DeployedVariant,
    EndpointState,
    Strategy,
    Update,
    find_refused_update,
)
from infra.preflight.check import RULES
from servable_local.aws.sagemaker.endpoint_update import Stage, plan_stages


def update(strategy: Strategy = "canary", percent: int = 10, instances: int = 2) -> Update:
    return Update(
        strategy=strategy,
        percent=percent,
        bake_minutes=10,
        window_minutes=3,
        instances=instances,
        rollback_percent=percent,
    )


PERCENTS = {"all_at_once": (100, 100), "canary": (1, 50), "linear": (10, 50), "rolling": (5, 50)}


@st.composite
def updates(draw: st.DrawFn) -> Update:
    strategy: Strategy = draw(st.sampled_from(["all_at_once", "canary", "linear", "rolling"]))
    window = draw(st.integers(1, 59))
    return Update(
        strategy=strategy,
        percent=draw(st.integers(*PERCENTS[strategy])),
        bake_minutes=draw(st.integers(window + 1, 60)),
        window_minutes=window,
        instances=draw(st.integers(1, 50)),
    )


def simulated(update: Update) -> list[Stage]:
    """The stages that the embedded SageMaker goes through, read from the API's words."""
    size = {"Type": "CAPACITY_PERCENT", "Value": update.percent}
    wait = update.bake_minutes * 60
    if update.strategy == "rolling":
        policy = {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait}
        return plan_stages({"RollingUpdatePolicy": policy}, update.instances)
    routing = {"Type": update.strategy.upper(), "WaitIntervalInSeconds": wait}
    routing |= {"CanarySize": size, "LinearStepSize": size}
    last = update.last_bake_seconds
    blue_green = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": last}
    return plan_stages({"BlueGreenUpdatePolicy": blue_green}, update.instances)


@given(updates(), st.none() | st.floats(0, 3600))
def test_an_update_goes_through_an_endpoints_steps_and_bakes_while_an_alarm_can_fire(
    one: Update, start: float | None
) -> None:
    assert list(one.steps) == [stage.active for stage in simulated(one)]
    assert one.bakes_seconds == sum(stage.bake_seconds for stage in simulated(one))
    # An alarm can fire before the old fleet is gone, and no timeout before every bake.
    assert one.last_bake_seconds > one.window_minutes * 60
    longest = one.compute_timeout(start)
    assert one.bakes_seconds < longest or longest == 28800
    assert 600 <= longest <= 28800


def test_a_tenth_is_at_least_one_instance() -> None:
    assert update().first_share_percent == 50
    assert update(instances=12).steps == (2, 12)
    assert update(instances=1).steps == (1, 1)


def test_both_fleets_run_at_once_or_a_batch_forward_and_all_back() -> None:
    cases: list[tuple[Strategy, int, int]] = [
        ("canary", 10, 24),
        ("linear", 25, 24),
        ("all_at_once", 100, 24),
        ("rolling", 20, 18),
    ]
    for strategy, percent, at_once in cases:
        assert update(strategy, percent, 12).instances_at_once == at_once

    assert (update("rolling", 25, 8).start_count, update("linear", 25, 8).start_count) == (4, 1)
    rolling = Update(strategy="rolling", percent=25, bake_minutes=10, window_minutes=3, instances=8)
    assert rolling.instances_at_once == 16


def test_an_update_takes_its_bakes_and_one_start_or_one_for_each_batch() -> None:
    assert update().estimate_seconds(200) == 10 * 60 + 4 * 60 + 200
    assert update("rolling", 50).estimate_seconds(200) == 2 * (10 * 60 + 200)
    assert update().estimate_seconds(None) is None


def test_a_start_may_take_twice_its_estimate_and_an_update_eight_hours() -> None:
    assert update().compute_timeout(200) == 14 * 60 + 1800
    assert update().compute_timeout(1000) == 14 * 60 + 2000 + 40  # whole minutes
    # Download and health check take 3600 s each at most (API_ProductionVariant).
    assert update().compute_timeout(None) == 14 * 60 + 7200
    assert update("rolling", 50).compute_timeout(1000) == 2 * (10 * 60) + 2 * 2000 + 20  # likewise
    assert update("rolling", 5, 20).compute_timeout(None) == 8 * 3600


def test_the_last_bake_is_whole_where_no_step_went_before_and_never_longer() -> None:
    cases: list[tuple[Strategy, int, int]] = [
        ("all_at_once", 100, 10 * 60),
        ("canary", 10, 10 * 60 + 4 * 60),
        ("linear", 50, 10 * 60 + 4 * 60),
        ("linear", 25, 3 * 10 * 60 + 4 * 60),
        ("rolling", 25, 4 * 10 * 60),
    ]
    for strategy, percent, seconds in cases:
        assert update(strategy, percent, 8).bakes_seconds == seconds

    short = Update(strategy="canary", percent=10, bake_minutes=3, window_minutes=9, instances=4)
    assert short.last_bake_seconds == 3 * 60


C5 = DeployedVariant(instance_type="ml.c5.xlarge", scales=False)
M5 = DeployedVariant(instance_type="ml.m5.xlarge", scales=False)
SCALED = DeployedVariant(instance_type="ml.c5.xlarge", scales=True)
SERVERLESS = DeployedVariant(instance_type=None, scales=False)
SHADOW = DeployedVariant(instance_type="ml.c5.xlarge", scales=False, shadow=True)


def state(queued: bool = False, guarded: bool = False, **named: DeployedVariant) -> EndpointState:
    return EndpointState(variants=named, queued=queued, guarded=guarded)


@pytest.mark.parametrize(
    ("rule", "old", "new", "concerned"),
    [
        ("change-async-removed", state(queued=True, a=C5), state(a=C5), [""]),
        ("change-async-removed", state(queued=True, a=C5), state(queued=True, a=M5), []),
        ("change-async-removed", state(a=C5), state(queued=True, a=C5), []),
        ("change-instances-to-serverless", state(a=C5), state(a=SERVERLESS), ["a"]),
        ("change-instances-to-serverless", state(a=SERVERLESS), state(a=C5), []),
        ("change-instances-to-serverless", state(a=SERVERLESS), state(b=SERVERLESS), []),
        ("change-variants-under-rollout", state(a=C5), state(guarded=True, b=C5), [""]),
        ("change-variants-under-rollout", state(a=C5), state(guarded=True, a=C5, b=C5), [""]),
        ("change-variants-under-rollout", state(a=C5), state(guarded=True, a=M5), []),
        ("change-variants-under-rollout", state(a=C5), state(guarded=True, a=C5, b=SHADOW), []),
        ("change-variants-under-rollout", state(guarded=True, a=C5), state(b=C5), []),
        ("change-variants-under-rollout", state(a=C5, b=SHADOW), state(guarded=True, a=C5), []),
        ("change-variants-under-rollout", state(), state(guarded=True, b=C5), []),
        ("change-type-while-scaled", state(a=SCALED), state(a=M5), ["a"]),
        ("change-type-while-scaled", state(a=C5), state(a=M5), []),
        ("change-type-while-scaled", state(a=SCALED), state(a=C5), []),
        ("change-variant-removed-while-scaled", state(a=SCALED, b=C5), state(b=C5), ["a"]),
        ("change-variant-removed-while-scaled", state(a=C5, b=C5), state(b=C5), []),
    ],
)
def test_refusals(rule: str, old: EndpointState, new: EndpointState, concerned: list[str]) -> None:
    assert list(find_refused_update(rule).problems(old, new)) == concerned


def test_a_refusal_names_the_variant_and_the_change() -> None:
    def says(rule: str, old: EndpointState, new: EndpointState) -> str:
        (problem,) = find_refused_update(rule).problems(old, new).values()
        return problem

    assert says("change-async-removed", state(queued=True, a=C5), state(a=C5)) == (
        "SageMaker cannot remove asynchronous inference from an endpoint"
    )
    assert says("change-instances-to-serverless", state(a=C5), state(a=SERVERLESS)) == (
        "SageMaker cannot make variant a serverless: the endpoint runs on instances"
    )
    new = state(guarded=True, c=C5, a=C5, d=C5)
    assert says("change-variants-under-rollout", state(a=C5, b=C5), new) == (
        "[rollout] doesn't allow adding or removing variants: b is removed, c is new, d is new"
    )
    pools = ("ml.c5.xlarge", "ml.m5.xlarge")
    several = DeployedVariant(instance_type="ml.c5.xlarge", scales=True, pools=pools)
    assert says("change-type-while-scaled", state(a=SCALED), state(a=several)) == (
        "variant a is scaled: SageMaker cannot change ml.c5.xlarge to ml.c5.xlarge, else "
        "ml.m5.xlarge in one update"
    )
    assert says("change-variant-removed-while-scaled", state(a=SCALED, b=C5), state(b=C5)) == (
        "variant a is scaled: SageMaker cannot remove it in one update"
    )


def test_a_scaled_variant_is_held_in_a_deploy_of_its_own_and_each_row_has_a_source() -> None:
    # https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    assert [row.id for row in REFUSED_UPDATES if row.two_deploys] == [
        "change-type-while-scaled",
        "change-variant-removed-while-scaled",
    ]
    for row in REFUSED_UPDATES:
        (rule,) = [one for one in RULES if one.id == row.id]
        assert rule.read_source().startswith("https://")


def test_one_variant_that_becomes_serverless_is_refused_once_and_named() -> None:
    old, new = state(a=SCALED), state(a=SERVERLESS)
    refused = [row for row in REFUSED_UPDATES if row.problems(old, new)]
    assert [row.id for row in refused] == ["change-instances-to-serverless"]
    assert list(refused[0].problems(state(a=C5, b=C5), state(a=C5, b=SERVERLESS))) == ["b"]
