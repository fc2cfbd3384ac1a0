"""Runs the rules of `servable check` for an endpoint without an environment file.

When all of its constructs are known, the endpoint is described as an environment file would
describe it. Each finding becomes an annotation of the construct that it is about.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from constructs import IConstruct

from infra.arguments import convert_key, read_arguments, replace_keys
from infra.constructs.endpoint.endpoint_base import OperatedEndpoint
from infra.constructs.model.model import SOME_ACCOUNT, SOME_REGION, Model
from infra.parameters.endpoint import EndpointTable
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.parameters.model import ModelTable
from infra.parameters.sources import Source
from infra.parameters.variant import Variant

# Stands for a name that only CloudFormation knows.
SOME_NAME = "endpoint"
# Rules about what an app passes as constructs and not as values: addresses are on its own topics.
_OF_FILES = frozenset({"alarms-runbook-unreachable", "endpoint-name-shared"})
# Errors of a file that an app may have a reason for: a scalable target of its own may scale.
_WARNINGS = frozenset({"capacity-nothing-scales"})
# Scaling knows a component by its name alone.
_OF_COMPONENT = re.compile(r"^variants\.[^.]+\.components\.")


def build_environment(endpoint: OperatedEndpoint, tables: Mapping[str, Any]) -> Environment:
    """Return the environment that a file with these tables would describe for the endpoint.

    Raises ValueError.
    """
    stack = cdk.Stack.of(endpoint)
    models: dict[str, ModelTable] = {}
    variants: dict[str, Variant] = {}
    for variant in endpoint.variants:
        table, components = variant.table, dict(variant.table.components)
        if variant.model is not None:
            table = table.model_copy(update={"model": _add_model(models, variant.model)})
        for name, component in variant.components.items() if components else ():
            named = {"model": _add_model(models, component.model)}
            components[name] = component.table.model_copy(update=named)
        variants[variant.name] = table.model_copy(update={"components": components})
    given = {
        "account": _replace_token(stack.account, SOME_ACCOUNT),
        "region": _replace_token(stack.region, SOME_REGION),
        "endpoint": EndpointTable(name=_replace_token(endpoint.name, SOME_NAME)),
        "models": models,
        "variants": variants,
        **tables,
    }
    return read_arguments(endpoint.node.path, Environment, given)


def _add_model(models: dict[str, ModelTable], model: Model) -> str:
    """Add the model's tables to `models`, and return the model's name there."""
    name = model.name
    while models.get(name, model.tables[model.name]) != model.tables[model.name]:
        name += "-2"  # a different model has the same name in its container
    models |= {each: table for each, table in model.tables.items() if each != model.name}
    models[name] = model.tables[model.name]
    return name


def add_findings(endpoint: OperatedEndpoint, described: Environment) -> None:
    """Add the findings of every rule to the constructs that they are about."""
    from infra.preflight.check import check_all  # every rule, only for an app with such an endpoint

    loaded = Loaded(
        name=endpoint.node.id,
        file=endpoint.node.path,
        root=Path.cwd(),
        draft=described,
        findings=(),
        source=Source(values=described.model_dump(exclude_unset=True, exclude_none=True)),
        overrides={},
    )
    agnostic, tables = cdk.Token.is_unresolved(cdk.Stack.of(endpoint).region), endpoint.tables
    for variant in endpoint.variants:
        for name, component in variant.components.items():
            if component.sleep_after_minutes and f"variants.{name}.scaling" not in tables:
                called = "variant" if variant.model else "component"
                cdk.Annotations.of(endpoint).add_error(
                    f"{name}: sleep_after_minutes: nothing stops its copies or restarts them; call "
                    f"{called}.auto_scale()"
                )
    for finding in check_all(loaded):
        about_region = agnostic and SOME_REGION in str(finding)
        about_alarms = finding.key.startswith("alarms") and "alarms" not in tables
        if not (about_region or about_alarms or finding.rule in _OF_FILES):
            _annotate_finding(endpoint, finding)


def _replace_token(value: str, otherwise: str) -> str:
    return otherwise if cdk.Token.is_unresolved(value) else value


def _annotate_finding(endpoint: OperatedEndpoint, finding: Finding) -> None:
    allowed = f"; allowed: {replace_keys(finding.allowed)}" if finding.allowed else ""
    text = (
        f"{convert_key(finding.key)}: {replace_keys(finding.problem)}{allowed}; "
        f"{replace_keys(finding.remedy)}"
    )
    annotations = cdk.Annotations.of(next(_find_constructs(endpoint, finding.key)))
    if finding.severity is Severity.ERROR and finding.rule not in _WARNINGS:
        annotations.add_error(f"{text} [{finding.acknowledgement}]")
    elif finding.severity in (Severity.ERROR, Severity.WARNING):
        annotations.add_warning_v2(finding.acknowledgement, text)


def _find_constructs(endpoint: OperatedEndpoint, key: str) -> Iterator[IConstruct]:
    """Yield the constructs that a dotted key is about, the closest one first."""
    key = _OF_COMPONENT.sub("variants.", key)
    for table, (construct, _) in endpoint.tables.items():
        if f"{key}.".startswith(f"{table}."):
            yield construct.node.scope or construct  # it has the ID that CDK leaves out
    table, _, rest = key.partition(".")
    for variant in endpoint.variants:
        for model in variant.served_models.values():
            if table == "models" and rest.startswith(f"{model.name}."):
                yield model
    yield endpoint
