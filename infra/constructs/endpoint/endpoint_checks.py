"""Checks arguments of an endpoint, and runs the rules of `servable check` on it.

When all of its constructs are known, an endpoint without an environment file is described as a file
would describe it. Each finding becomes an annotation of the construct that it is about.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from constructs import IConstruct, IValidation

from infra.arguments import check_kind, convert_key, read_arguments, replace_keys
from infra.constructs.endpoint.endpoint_base import OperatedEndpoint
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.model.hosting import SOME_ACCOUNT, SOME_REGION, check_instance_type
from infra.constructs.model.model import Model
from infra.parameters.endpoint import EndpointTable
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.parameters.model import ModelTable
from infra.parameters.sources import Source
from infra.parameters.table import Name, Table
from infra.parameters.variant import Variant

# Stands for a name that only CloudFormation knows.
SOME_NAME = "endpoint"
# Rules about values that an app passes as constructs: its own topics have the addresses.
_OF_FILES = frozenset({"alarms-runbook-unreachable", "endpoint-name-shared"})
# Errors that are warnings here: an app may have its own scalable target.
_WARNINGS = frozenset({"capacity-nothing-scales"})
# Scaling identifies a component by its name alone.
_OF_COMPONENT = re.compile(r"^variants\.[^.]+\.components\.")


class _Named(Table):
    """A name in the format that SageMaker accepts."""

    name: Name


def check_endpoint_name(where: str, name: str, logs: EndpointLogs | None) -> None:
    """Raise ValueError if SageMaker rejects the name or the log group has a different one."""
    check_kind(where, "log group made by EndpointLogs", logs=logs)
    if cdk.Token.is_unresolved(name):
        return
    read_arguments(where, EndpointTable, {"name": name})
    named = name if logs is None else logs.endpoint_name
    if logs is not None and named != name and not cdk.Token.is_unresolved(named):
        raise ValueError(
            f"{where}: logs: {logs.node.path} is the log group of {named!r}; pass "
            f"EndpointLogs(endpoint_name={name!r}), or omit it"
        )


def check_variant_name(where: str, name: str, existing: Container[str]) -> None:
    """Raise ValueError if SageMaker rejects the name or a different variant has it."""
    read_arguments(where, _Named, {"name": name})
    if name in existing:
        raise ValueError(f"{where}: name: {name!r} exists already; use a different name")


def check_instances(where: str, table: Variant) -> None:
    """Raise ValueError if the instance type is missing or unknown, or for bounds that don't fit."""
    least, most = table.min_instances, table.max_instances
    if most is not None and most < least:
        raise ValueError(
            f"{where}: max_instances: {most} is below min_instances = {least}; pass {least} or more"
        )
    if not table.instance_types and table.serverless is None:
        raise ValueError(f"{where}: instance_type: it is missing; pass one, such as ml.c5.xlarge")
    for each in table.instance_types:
        check_instance_type(where, each)


def build_environment(endpoint: OperatedEndpoint, tables: Mapping[str, Any]) -> Environment:
    """Return the environment that a file with these tables would describe. Raises ValueError."""
    stack = cdk.Stack.of(endpoint)
    models: dict[str, ModelTable] = {}
    variants: dict[str, Variant] = {}
    for variant in endpoint.variants:
        update: dict[str, Any] = {}
        if variant.model is not None:
            update["model"] = _add_model(models, variant.model)
        elif variant.components:
            update["components"] = {
                name: each.table.model_copy(update={"model": _add_model(models, each.model)})
                for name, each in variant.components.items()
            }
        variants[variant.name] = variant.table.model_copy(update=update)
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

    values = described.model_dump(exclude_unset=True, exclude_none=True)
    loaded = Loaded(
        name=endpoint.node.id, file=endpoint.node.path, root=Path.cwd(), draft=described,
        findings=(), source=Source(values=values), overrides={},
    )  # fmt: skip
    agnostic, tables = cdk.Token.is_unresolved(cdk.Stack.of(endpoint).region), endpoint.tables
    for variant in endpoint.variants:
        for name, component in variant.components.items():
            if component.table.sleep_after_minutes and f"variants.{name}.scaling" not in tables:
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
    problem, remedy = replace_keys(finding.problem), replace_keys(finding.remedy)
    text = f"{convert_key(finding.key)}: {problem}{allowed}; {remedy}"
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


@jsii.implements(cdk.IAspect, IValidation, cdk.IStableListProducer)
class AtSynthesis:
    """The actions of an endpoint during synthesis: create constructs, validate, and list ARNs."""

    def __init__(
        self, endpoint: OperatedEndpoint, arns: Callable[[], list[str]] | None = None
    ) -> None:
        self._endpoint, self._arns = endpoint, arns

    def visit(self, node: IConstruct) -> None:
        """Create the endpoint's constructs when a construct that needs them is first visited."""
        self._endpoint.create()

    def validate(self) -> list[str]:
        """Return errors for an endpoint without variants, or for variants without a model."""
        if not self._endpoint.variants:
            return ["the endpoint has no variant; call endpoint.add_variant(…)"]
        return [
            f"variant {variant.name} has no model; pass add_variant a model, or call add_component"
            for variant in self._endpoint.variants
            if not variant.served_models
        ]

    def produce(self) -> list[str]:
        """Return the ARNs that callers invoke."""
        return self._arns() if self._arns else []
