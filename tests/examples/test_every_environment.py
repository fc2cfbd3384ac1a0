"""Every environment of the project and of examples/: its keys, the order of its resources, its API calls."""

import copy
import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any

import pytest
from pydantic import BaseModel

from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.parameters.loading import load
from infra.preflight.check import check, select_errors
from tests.api_calls import calls, problems
from tests.conftest import valid
from tests.presets import environments, synthesised, templates

# Those of the articles differ from the others in numbers alone.
ARTICLES = ("detector/", "large_models/", "pages/", "ranking/", "retrieval/")
NAMES = [
    pytest.param(name, marks=[pytest.mark.long] if name.startswith(ARTICLES) else [])
    for name in sorted(environments())
]
OWN = {name: loaded.environment for name, loaded in environments().items()}
WITH_DATA = [name for name, one in OWN.items() if one.capture or one.asynchronous]
# What people change from day to day, in every file that has it.
ORDINARY = {
    "alarms.window_minutes": "4",
    "alarms.cpu_percent": "71",
    "endpoint.log_retention_days": "14",
    "variants.{variant}.container.intra_op_threads": "2",
    "variants.{variant}.max_instances": "7",
    "capture.sample_percent": "17",
}
# Not in use: its one value besides the default, "at start", has pip in every container fetch packages from
# the internet. No example should do so, and no test of one could.
EXCEPTIONS = {"ModelTable.install"}
Template = Mapping[str, Any]


def find_references(value: Any) -> Iterator[str]:
    """Yield the names of what references, attributes and substitutions name."""
    if isinstance(value, list):
        for one in value:
            yield from find_references(one)
    for key, inside in value.items() if isinstance(value, Mapping) else ():
        if key == "Ref":
            yield inside
        elif key == "Fn::GetAtt":
            yield inside[0] if isinstance(inside, list) else inside.split(".")[0]
        elif key == "Fn::Sub":
            text, more = inside if isinstance(inside, list) else (inside, {})
            yield from (one.split(".")[0] for one in re.findall(r"\$\{([^!}]+)\}", text))
            yield from find_references(more)
        else:
            yield from find_references(inside)


def waits_for(template: Template) -> dict[str, set[str]]:
    """{resource: the resources that CloudFormation makes before it}."""
    found = {}
    for name, resource in template["Resources"].items():
        depends = resource.get("DependsOn", [])
        direct = {depends} if isinstance(depends, str) else set(depends)
        direct |= set(find_references(resource.get("Properties", {})))
        found[name] = direct & set(template["Resources"])
    return found


def before(template: Template, name: str) -> set[str]:
    """Everything that is made before a resource."""
    graph, found, open_ = waits_for(template), set[str](), [name]
    while open_:
        for one in graph[open_.pop()] - found:
            found.add(one)
            open_.append(one)
    return found


def imports(value: Any) -> Iterator[str]:
    """The names that Fn::ImportValue asks for."""
    if isinstance(value, Mapping):
        if isinstance(value.get("Fn::ImportValue"), str):
            yield value["Fn::ImportValue"]
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from imports(one)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_resources_follow_what_they_need_and_can_be_replaced(name: str) -> None:
    for template in templates(name).values():
        list(TopologicalSorter(waits_for(template)).static_order())  # raises CycleError
        for one, resource in template["Resources"].items():
            asked, kind = resource.get("Properties", {}), resource["Type"].split("::")[-1]
            if kind in ("Model", "EndpointConfig"):  # an update replaces it
                assert f"{kind}Name" not in asked
            elif kind == "ScalableTarget":
                kinds = {template["Resources"][other]["Type"] for other in before(template, one)}
                assert "AWS::SageMaker::Endpoint" in kinds
            elif kind == "Endpoint":
                rollback = asked.get("DeploymentConfig", {}).get("AutoRollbackConfiguration", {})
                alarms = {alarm["AlarmName"]["Ref"] for alarm in rollback.get("Alarms", [])}
                assert alarms <= before(template, one)
    if name not in WITH_DATA:
        assert list(imports(templates(name))) == []


@pytest.mark.parametrize("name", NAMES)
def test_sagemaker_and_autoscaling_take_every_call(name: str) -> None:
    asked = [call for template in templates(name).values() for call in calls(template)]
    assert [said for call in asked for said in problems(call)] == []
    operations = {call[1] for call in asked}
    of_endpoints = {"CreateEndpointConfig", "CreateEndpoint", "UpdateEndpoint"}
    wanted = of_endpoints if OWN[name].variants else set()
    assert (operations & of_endpoints, "CreateModel" in operations) == (wanted, True)


def test_what_the_service_refuses_is_found() -> None:
    found = calls(templates("variants/serverless")["endpoint"])
    service, operation, config = next(one for one in found if one[1] == "CreateEndpointConfig")
    for key, wrong in [("MaxConcurrency", 201), ("MaxConcurrency", "5"), ("Memory", 1)]:
        asked = copy.deepcopy(config)
        asked["ProductionVariants"][0]["ServerlessConfig"][key] = wrong
        assert problems((service, operation, asked))


@pytest.mark.long
def test_only_an_instance_type_with_settings_of_its_own_has_a_model_of_its_own() -> None:
    found = calls(templates("variants/instance-pools")["endpoint"])
    arguments = next(one[2] for one in found if one[1] == "CreateEndpointConfig")
    pools = arguments["ProductionVariants"][0]["InstancePools"]
    assert ["ModelNameOverride" in pool for pool in pools] == [False, False, True]


@pytest.mark.long
def test_a_preset_of_variants_or_scaling_has_no_finding() -> None:
    for name, loaded in environments().items():
        if name.startswith(("variants/", "scaling/")):
            found = check(loaded)
            assert [str(one) for one in found if one.severity is not Severity.ACKNOWLEDGED] == []


def exported(made: dict[str, Any]) -> dict[str, Any]:
    """What the endpoint's stack imports: {export: its value, and the resources that it names}."""
    shared = [output for output in made["data"]["Outputs"].values() if "Export" in output]
    outputs = {output["Export"]["Name"]: output["Value"] for output in shared}
    return {one: outputs[one] for one in imports(made["endpoint"])}


@pytest.mark.parametrize("name", WITH_DATA)
def test_what_is_imported_stays_the_same_in_an_ordinary_update(name: str) -> None:
    loaded = environments()[name]
    (variant, *_) = loaded.environment.variants
    overrides = {
        key.replace("{variant}", variant): value
        for key, value in ORDINARY.items()
        if loaded.environment.capture or not key.startswith("capture.")
    }
    if loaded.environment.variants[variant].scaling is None:
        del overrides[f"variants.{variant}.max_instances"]
    folder = (loaded.root / loaded.file).parent
    changed = {one.name: one for one in load(loaded.root, folder, {loaded.name: overrides})}
    updated = valid(changed[loaded.name])
    assert select_errors(check(updated)) == []
    assert exported(synthesised(updated)) == exported(templates(name)) != {}


def keys_in_use(value: object) -> Iterator[str]:
    """TABLE.key of each key that a file sets, in this table and in those within it."""
    if isinstance(value, BaseModel):
        for key in value.model_fields_set:
            yield f"{type(value).__name__}.{key}"
            yield from keys_in_use(getattr(value, key))
    elif isinstance(value, dict):
        yield from keys_in_use(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from keys_in_use(item)


def test_every_key_is_in_use_in_an_environment_or_an_example() -> None:
    schema = Environment.model_json_schema()
    tables = {"Environment": schema, **schema["$defs"]}
    keys = {f"{name}.{key}" for name, table in tables.items() for key in table["properties"]}
    in_use = {key for environment in OWN.values() for key in keys_in_use(environment)}
    assert keys - in_use == EXCEPTIONS
