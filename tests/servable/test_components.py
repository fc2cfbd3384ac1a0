"""Commands about an environment whose variant has components: names, plans, restored files."""

import re
from typing import Any

import pytest

from infra.parameters.loading import ValidFile
from infra.parameters.placement import find_placement
from model_packaging.refusal import PackagingError
from servable.check.explain import explain_settings
from servable.history.restoring import _find_table
from servable.invoke.invoke import find_component
from servable.load.bodies import load_bodies
from servable.plan.template_changes import describe_component_changes
from tests.conftest import VALID, Environment, valid

SHARED = VALID.replace('model = "ranker"\n', "") + (
    '[variants.primary.components.first]\nmodel = "ranker"\n'
    '[variants.primary.components.second]\nmodel = "other"\n'
    '[models.other]\nsaved_model = "model"\ntensorflow = "2.20"\n'
    'golden = { request = "golden/other.json" }\n'
)


@pytest.fixture
def shared(environment: Environment) -> ValidFile:
    return valid(environment(SHARED))


def test_a_component_has_its_name_requests_reasons_and_table(shared: ValidFile) -> None:
    for name, component in [(None, "ranker-first"), ("second", "ranker-second")]:
        assert find_component(shared.environment, name) == component
    with pytest.raises(PackagingError, match="allowed: first, second"):
        find_component(shared.environment, "secnd")

    (shared.root / "golden").mkdir(exist_ok=True)
    (shared.root / "golden/other.json").write_text('{"instances": [[1]]}')
    bodies, _ = load_bodies((), content_type=None, loaded=shared, variant="second")
    assert [body.content for body in bodies] == [b'{"instances": [[1]]}']
    explained = {(line.variant, line.name): line for line in explain_settings(shared)}
    cpus = explained["first", "cpus"]
    assert (cpus.value, cpus.origin) == ("1.75", "derived")
    placed = find_placement(shared.environment, "first")
    assert placed is not None
    key = "container.tfs_processes"
    assert placed.build_key(key) == f"variants.primary.components.first.{key}"
    assert placed.build_key("instance_type") == "variants.primary.instance_type"


def template(**components: str) -> dict[str, Any]:
    """A component for each name, of a model with this archive."""
    resources: dict[str, Any] = {}
    for name, archive in components.items():
        model = {"PrimaryContainer": {"ModelDataUrl": archive}}
        resources[f"Model{name}"] = {"Type": "AWS::SageMaker::Model", "Properties": model}
        served = {"ModelName": {"Fn::GetAtt": [f"Model{name}", "ModelName"]}}
        resources[f"Component{name}"] = {
            "Type": "AWS::SageMaker::InferenceComponent",
            "Properties": {"InferenceComponentName": name, "Specification": served},
        }
    return {"Resources": resources}


def test_plan_says_what_becomes_of_each_component_and_a_restored_file_has_its_table() -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        (template(a="1"), []),
        (template(a="2"), ["component a is updated in place"]),
        (template(a="1", b="1"), ["component b is new"]),
        (template(), ["component a is deleted"]),
    ]
    for after, said in cases:
        found = describe_component_changes(template(a="1"), after)
        assert [re.split("[;:]", each)[0] for each in found] == said

    table: dict[str, Any] = {"model": "ranker"}
    settings = {"variants": {"primary": {"components": {"first": table}}}}
    assert _find_table(settings, "first") is table
    assert _find_table({"variants": {"primary": table}}, "primary") is table
