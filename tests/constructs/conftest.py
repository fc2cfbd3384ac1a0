"""Templates, synthesised in process: of an environment file, and of an endpoint in an app of one's own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Annotations, Match, Template

from infra.preflight.check import check, select_errors
from servable import constructs as own
from stacks.endpoint_stack import EndpointStack
from stacks.environment_stage import EnvironmentStage
from tests.conftest import RANKER, VALID, Environment
from tests.presets import FLAGS

HERE = cdk.Environment(account="111111111111", region="eu-west-1")

CALLERS = 'callers = ["arn:aws:iam::111111111111:role/web"]'


def stage_of(environment: Environment, *text: str, **replacements: str) -> EnvironmentStage:
    loaded = environment(*text, **replacements)
    findings = check(loaded)
    assert select_errors(findings) == []
    app = cdk.App(context=FLAGS, outdir=str(loaded.root / "cdk.out"))
    return EnvironmentStage(app, loaded, findings)


def stack_of(environment: Environment, *text: str, **replacements: str) -> EndpointStack:
    stack = stage_of(environment, *text, **replacements).node.find_child("endpoint")
    assert isinstance(stack, EndpointStack)
    return stack


class Synthesised:
    """The resources of one template."""

    def __init__(self, template: dict[str, Any]) -> None:
        self.template = template

    @classmethod
    def of(cls, stack: cdk.Stack) -> "Synthesised":
        return cls(dict(Template.from_stack(stack).to_json()))

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        found = self.template["Resources"].items()
        return {name: resource for name, resource in found if resource["Type"] == kind}

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [resource["Properties"] for resource in self.resources(kind).values()]

    def one(self, kind: str) -> dict[str, Any]:
        (found,) = self.all(kind)
        return found

    def ids(self, kind: str) -> list[str]:
        return [*self.resources(kind)]


Synthesise = Callable[..., Synthesised]
# The same file and the same model have the same template.
_templates: dict[tuple[object, ...], dict[str, Any]] = {}


@pytest.fixture
def synthesise(environment: Environment) -> Synthesise:
    """Synthesises the project as the fixture makes it; who changes its files calls `stack_of`."""

    def run(*text: str, **replacements: str) -> Synthesised:
        key = (*text, *sorted(replacements.items()))
        if key not in _templates:
            _templates[key] = Synthesised.of(stack_of(environment, *text, **replacements)).template
        return Synthesised(_templates[key])

    return run


def with_keys(table: str, keys: str, text: str = VALID) -> str:
    """The file with further lines in [endpoint] or [models.ranker]."""
    last = {"endpoint": 'name = "ranker"\n', "model": 'tensorflow = "2.20"\n'}[table]
    assert text.count(last) == 1
    return text.replace(last, f"{last}{keys}\n")


def written(file: str, name: str) -> list[str]:
    """The lines of a section of a file of expected lines."""
    sections = (Path(__file__).parent / file).read_text().split("== ")
    (found,) = (each for each in sections if each.startswith(f"{name}\n"))
    return found.splitlines()[1:]


def listed(value: Any) -> list[str]:
    """The actions or resources of a statement, as texts."""
    return [flat(one) for one in (value if isinstance(value, list) else [value])]


def flat(value: Any) -> str:
    """Return a property as text; a reference as that to which it refers."""
    if isinstance(value, str):
        return value
    ((function, argument),) = value.items()
    return "".join(map(flat, argument[1])) if function == "Fn::Join" else str(argument)


def own_stack(name: str = "search", *, env: cdk.Environment | None = HERE) -> cdk.Stack:
    return cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), name, env=env)


class Own:
    """A model and an endpoint in a stack of one's own."""

    def __init__(
        self,
        *,
        stack: cdk.Stack | None = None,
        endpoint: Mapping[str, Any] | None = None,
        **model: Any,
    ) -> None:
        self.stack = stack or own_stack()
        self.model = own.Model.from_saved_model(self.stack, "Model", RANKER, **model)
        self.endpoint = own.Endpoint(
            self.stack, "Endpoint", endpoint_name="search", **endpoint or {}
        )

    @classmethod
    def with_variant(cls, **given: Any) -> "Own":
        made = cls()
        made.add(**given)
        return made

    def add(self, name: str = "primary", **given: Any) -> own.EndpointVariant:
        """Add a variant on an ml.c5.xlarge, unless `given` has another type."""
        given = {"instance_type": "ml.c5.xlarge", **given}
        return self.endpoint.add_variant(name, self.model, **given)

    @property
    def synthesised(self) -> Synthesised:
        return Synthesised.of(self.stack)

    @property
    def variants(self) -> list[dict[str, Any]]:
        """Those of the endpoint configuration; the shadows last."""
        config = self.synthesised.one("AWS::SageMaker::EndpointConfig")
        return [*config["ProductionVariants"], *config.get("ShadowProductionVariants", ())]

    def annotations(self, level: str) -> list[tuple[str, str]]:
        """Path and text of each annotation of a level: error, warning."""
        find = getattr(Annotations.from_stack(self.stack), f"find_{level}")
        return [(each.id, str(each.entry.data)) for each in find("*", Match.any_value())]
