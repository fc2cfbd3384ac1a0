"""A template, synthesised in process from an environment file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.preflight.check import check, select_errors
from stacks.endpoint_stack import EndpointStack
from stacks.environment_stage import EnvironmentStage
from tests.conftest import Environment

ROOT = Path(__file__).resolve().parents[2]
FLAGS = json.loads((ROOT / "cdk.json").read_text())["context"]


def stack_of(environment: Environment, *text: str, **replacements: str) -> EndpointStack:
    loaded = environment(*text, **replacements)
    findings = check(loaded)
    assert select_errors(findings) == []
    stage = EnvironmentStage(
        cdk.App(context=FLAGS, outdir=str(loaded.root / "cdk.out")), loaded, findings
    )
    stack = stage.node.find_child("endpoint")
    assert isinstance(stack, EndpointStack)
    return stack


class Synthesised:
    """The resources of one template."""

    def __init__(self, template: dict[str, Any]) -> None:
        self.template = template

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [
            resource["Properties"]
            for resource in self.template["Resources"].values()
            if resource["Type"] == kind
        ]

    def one(self, kind: str) -> dict[str, Any]:
        found = self.all(kind)
        assert len(found) == 1
        return found[0]

    def ids(self, kind: str) -> list[str]:
        return [
            name
            for name, resource in self.template["Resources"].items()
            if resource["Type"] == kind
        ]


def listed(value: Any) -> list[str]:
    """The actions or resources of a statement, as texts."""
    return [flat(one) for one in (value if isinstance(value, list) else [value])]


def flat(value: Any) -> str:
    """Return a property as text; a reference as that to which it refers."""
    if isinstance(value, str):
        return value
    ((function, argument),) = value.items()
    return "".join(map(flat, argument[1])) if function == "Fn::Join" else str(argument)


@pytest.fixture(scope="session")
def templates() -> dict[tuple[object, ...], dict[str, Any]]:
    """What was synthesised: the same file and the same model have the same template."""
    return {}


@pytest.fixture
def synthesise(
    environment: Environment, templates: dict[tuple[object, ...], dict[str, Any]]
) -> Callable[..., Synthesised]:
    """Synthesises the project as the fixture makes it; who changes its files calls `stack_of`."""

    def run(*text: str, **replacements: str) -> Synthesised:
        key = (*text, *sorted(replacements.items()))
        if key not in templates:
            stack = stack_of(environment, *text, **replacements)
            templates[key] = dict(Template.from_stack(stack).to_json())
        return Synthesised(templates[key])

    return run
