"""The updates that SageMaker refuses: each row on both sides."""

import pytest

from infra.policy.update import REFUSED_UPDATES, DeployedVariant, EndpointState, find_refused_update
from infra.preflight.check import RULES

C5 = DeployedVariant(instance_type="ml.c5.xlarge", scales=False)
M5 = DeployedVariant(instance_type="ml.m5.xlarge", scales=False)
SCALED = DeployedVariant(instance_type="ml.c5.xlarge", scales=True)
SERVERLESS = DeployedVariant(instance_type=None, scales=False)
SHADOW = DeployedVariant(instance_type="ml.c5.xlarge", scales=False, shadow=True)


def state(
    *, queued: bool = False, guarded: bool = False, **variants: DeployedVariant
) -> EndpointState:
    return EndpointState(variants=variants, queued=queued, guarded=guarded)


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
def test_what_is_refused(
    rule: str, old: EndpointState, new: EndpointState, concerned: list[str]
) -> None:
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
    assert [row.id for row in REFUSED_UPDATES if row.problems(old, new)] == [
        "change-instances-to-serverless"
    ]
    problems = find_refused_update("change-instances-to-serverless").problems
    assert list(problems(state(a=C5, b=C5), state(a=C5, b=SERVERLESS))) == ["b"]
