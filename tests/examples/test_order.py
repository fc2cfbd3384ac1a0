"""For every environment: what is made before what, and what an update can always replace."""

from collections.abc import Iterator
from graphlib import CycleError
from typing import Any

import pytest

from infra.parameters.loading import load
from infra.preflight.check import check, select_errors
from tests.conftest import valid
from tests.presets import environments, synthesised, templates
from tests.template_graph import before, imports, in_order

NAMES = sorted(environments())
WITH_DATA = [
    name
    for name, one in environments().items()
    if one.environment.capture or one.environment.asynchronous
]
# What people change from day to day, in every file that has it.
ORDINARY = {
    "alarms.window_minutes": "4",
    "alarms.cpu_percent": "71",
    "endpoint.log_retention_days": "14",
    "variants.{variant}.container.intra_op_threads": "2",
    "variants.{variant}.max_instances": "7",
    "capture.sample_percent": "17",
}


def resources(name: str, kind: str) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(its template, its name, itself)"""
    for template in templates(name).values():
        for one, resource in template.get("Resources", {}).items():
            if resource["Type"] == kind:
                yield template, one, resource


@pytest.mark.parametrize("name", NAMES)
def test_nothing_waits_for_itself(name: str) -> None:
    for template in templates(name).values():
        assert len(in_order(template)) == len(template["Resources"])


@pytest.mark.parametrize("kind", ["Model", "EndpointConfig"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_replaced_has_no_fixed_name(name: str, kind: str) -> None:
    named = [
        one
        for _, one, resource in resources(name, f"AWS::SageMaker::{kind}")
        if f"{kind}Name" in resource["Properties"]
    ]
    assert named == []


@pytest.mark.parametrize("name", NAMES)
def test_a_scalable_target_comes_after_its_endpoint(name: str) -> None:
    for template, target, _ in resources(name, "AWS::ApplicationAutoScaling::ScalableTarget"):
        kinds = {template["Resources"][one]["Type"] for one in before(template, target)}
        assert "AWS::SageMaker::Endpoint" in kinds


@pytest.mark.parametrize("name", NAMES)
def test_an_endpoint_comes_after_the_alarms_that_take_it_back(name: str) -> None:
    for template, endpoint, resource in resources(name, "AWS::SageMaker::Endpoint"):
        rollback = resource["Properties"].get("DeploymentConfig", {})
        alarms = rollback.get("AutoRollbackConfiguration", {}).get("Alarms", [])
        assert {alarm["AlarmName"]["Ref"] for alarm in alarms} <= before(template, endpoint)


def exported(name: str, **overrides: str) -> dict[str, Any]:
    """What the endpoint's stack imports: {export: its value, and the resources that it names}."""
    loaded = environments()[name]
    if overrides:
        given = {loaded.name: overrides}
        (loaded,) = [
            valid(one)
            for one in load(loaded.root, (loaded.root / loaded.file).parent, given)
            if one.name == loaded.name
        ]
        assert select_errors(check(loaded)) == []
    made = synthesised(loaded)
    outputs = {
        output["Export"]["Name"]: output["Value"]
        for output in made["data"]["Outputs"].values()
        if "Export" in output
    }
    return {one: outputs[one] for one in imports(made["endpoint"])}


@pytest.mark.parametrize("name", WITH_DATA)
def test_what_is_imported_stays_the_same_in_an_ordinary_update(name: str) -> None:
    environment = environments()[name].environment
    (variant, *_) = environment.variants
    overrides = {
        key.replace("{variant}", variant): value
        for key, value in ORDINARY.items()
        if environment.capture or not key.startswith("capture.")
    }
    if environment.variants[variant].scaling is None:
        del overrides[f"variants.{variant}.max_instances"]
    assert exported(name, **overrides) == exported(name) != {}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITH_DATA])
def test_without_data_of_its_own_nothing_is_imported(name: str) -> None:
    assert list(imports(templates(name))) == []


def test_a_circle_would_be_found() -> None:
    circle = {"A": {"Properties": {"B": {"Ref": "B"}}}, "B": {"DependsOn": "A"}}
    with pytest.raises(CycleError):
        in_order({"Resources": circle})
