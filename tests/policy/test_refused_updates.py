"""The updates that SageMaker refuses: each row on both sides."""

import pytest

from infra.policy.refused_updates import (
    REFUSED_UPDATES,
    DeployedVariant,
    EndpointState,
    RefusedUpdate,
    refused_update,
)
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
    assert list(refused_update(rule).problems(old, new)) == concerned


@pytest.mark.parametrize("row", REFUSED_UPDATES, ids=lambda row: str(row.id))
def test_every_row_is_a_rule_with_the_same_source(row: RefusedUpdate) -> None:
    (rule,) = [one for one in RULES if one.id == row.id]
    assert row.source.split()[0] in rule.source()
