"""The rules of `servable check` for an endpoint without an environment file, as annotations.

The endpoint is described as an environment file would describe it, when the app is synthesised and all of its
constructs are made; a finding goes to the construct that it is about.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import aws_cdk as cdk
import jsii
from aws_cdk import aws_sagemaker as sagemaker
from constructs import IConstruct
from pydantic import ValidationError

from infra.constructs.endpoint.endpoint_variant import EndpointVariant, InstanceVariant
from infra.constructs.endpoint.inference_component import ModelCopies
from infra.constructs.monitoring.watched_endpoint import Tables
from infra.parameters.endpoint import EndpointTable, Traffic
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.parameters.metrics import Metrics
from infra.parameters.model import ModelTable
from infra.parameters.placement import Placement
from infra.parameters.retained import Asynchronous, Capture
from infra.parameters.sources import Source
from infra.parameters.table import Table
from infra.parameters.variant import Component, Variant

# Stand for what only CloudFormation knows. No finding about the region is shown then.
SOME_ACCOUNT, SOME_REGION, SOME_NAME = "000000000000", "us-east-1", "endpoint"
# A key of an environment file that an argument has another name for.
_ARGUMENTS = {"saved_model": "folder", "": "name"}
# Rules about what an app gives as things and not as values: addresses are on its own topics.
_OF_FILES = frozenset({"alarms-runbook-unreachable", "endpoint-name-shared"})
# Errors of a file that an app may have a reason for: another construct of its own may scale.
_WARNINGS = frozenset({"capacity-nothing-scales"})
# EndpointScaling knows a component by its name alone.
_OF_COMPONENT = re.compile(r"^variants\.[^.]+\.components\.")
_SCALING_TABLE = re.compile(r"a table \[variants\.[\w-]+\.scaling\]")


class CheckedEndpoint(IConstruct, Protocol):
    """A `ModelEndpoint`, as far as it is looked at."""

    name: str
    tables: Tables
    variants: tuple[EndpointVariant, ...]
    copies: dict[str, ModelCopies]
    resource: sagemaker.CfnEndpoint


def check_when_synthesised(
    endpoint: CheckedEndpoint,
    *,
    metrics: Metrics,
    production: bool,
    traffic: Traffic,
    acknowledge: Mapping[str, str],
    capture: Capture | None,
    asynchronous: Asynchronous | None,
) -> None:
    """Adds the findings of every rule to the endpoint's constructs, before the app is synthesised."""
    fixed = {
        "production": production,
        "metrics": metrics,
        "traffic": traffic,
        "capture": capture,
        "asynchronous": asynchronous,
        "acknowledge": dict(acknowledge),
    }
    cdk.Aspects.of(endpoint.resource).add(_Checks(endpoint, fixed))


@jsii.implements(cdk.IAspect)
class _Checks:
    """Visits one construct, the endpoint's resource, after all others are made."""

    def __init__(self, endpoint: CheckedEndpoint, fixed: Mapping[str, Any]) -> None:
        self._endpoint, self._fixed = endpoint, fixed

    def visit(self, node: IConstruct) -> None:
        from infra.preflight.check import check_all  # every rule: for who has such an endpoint

        endpoint, tables = self._endpoint, self._endpoint.tables
        try:
            draft = _described(endpoint, self._fixed)
        except ValidationError as wrong:
            for error in wrong.errors():
                key = ".".join(str(part) for part in error["loc"] if part != "[key]")
                _annotate(endpoint, key).add_error(f"{_argument(key)}: {error['msg']}")
            return
        loaded = Loaded(
            name=endpoint.node.id,
            file=endpoint.node.path,
            root=Path.cwd(),
            draft=draft,
            findings=(),
            source=Source(values=draft.model_dump(exclude_unset=True, exclude_none=True)),
            overrides={},
        )
        agnostic = cdk.Token.is_unresolved(cdk.Stack.of(endpoint).region)
        for name, copies in endpoint.copies.items():
            if copies.sleep_after_minutes and f"variants.{name}.scaling" not in tables:
                cdk.Annotations.of(endpoint).add_error(
                    f"{name}: sleep_after_minutes: nothing ends its copies, or starts them again; add "
                    f'EndpointScaling(…, endpoint=…, variant="{name}", scaling=Scaling())'
                )
        for finding in check_all(loaded):
            about_region = agnostic and SOME_REGION in str(finding)
            about_alarms = finding.key.startswith("alarms") and "alarms" not in tables
            if not (about_region or about_alarms or finding.rule in _OF_FILES):
                _say(endpoint, finding)


def _described(endpoint: CheckedEndpoint, fixed: Mapping[str, Any]) -> Environment:
    """The endpoint as an environment file describes it. Raises ValidationError."""
    stack = cdk.Stack.of(endpoint)
    models: dict[str, ModelTable] = {}
    variants: dict[str, Variant] = {}
    for variant in endpoint.variants:
        assert isinstance(variant, InstanceVariant)
        components = {each.name: each for each in variant.components}
        served = [each.model.placement for each in components.values()] or [variant.model.placement]
        if None in served:
            continue
        scaling = endpoint.tables.get(f"variants.{variant.name}.scaling")
        placement = next(filter(None, served))
        own: dict[str, Any] = {
            "components": {
                key: _component(endpoint, models, each) for key, each in components.items()
            }
        }
        if not components:
            own = {**_set(placement.variant), "model": _model(models, placement)}
        given: dict[str, Any] = {
            **own,
            "sleep_after_minutes": variant.sleep_after_minutes,
            "instance_type": variant.instance_type,
            "min_instances": variant.capacity[0],
            "max_instances": variant.max_instances,
            "initial_instances": variant.initial_instances if scaling else None,
            "weight": variant.weight,
            "volume_gb": variant.volume_gb,
            "inference_ami": variant.inference_ami,
            "download_timeout_seconds": variant.download_timeout_seconds,
            "startup_timeout_seconds": variant.startup_timeout_seconds,
            "shadow": variant.shadow,
            "scaling": scaling[1] if scaling else None,
        }
        variants[variant.name] = Variant(**given)
    tables: dict[str, Any] = {
        key: endpoint.tables[key][1] for key in ("rollout", "alarms") if key in endpoint.tables
    }
    return Environment(
        account=_known(stack.account, SOME_ACCOUNT),
        region=_known(stack.region, SOME_REGION),
        endpoint=EndpointTable(name=_known(endpoint.name, SOME_NAME)),
        models=models,
        variants=variants,
        **tables,
        **fixed,
    )


def _model(models: dict[str, ModelTable], placement: Placement) -> str:
    """Name of the model, which is now one of `models`."""
    name = placement.variant.model
    while models.get(name, placement.model) != placement.model:
        name += "-2"  # another model of the same name in the container
    models[name] = placement.model
    return name


def _component(
    endpoint: CheckedEndpoint, models: dict[str, ModelTable], copies: ModelCopies
) -> Component:
    placement = copies.model.placement
    assert placement is not None  # the caller has looked
    scaling = endpoint.tables.get(f"variants.{copies.name}.scaling")
    given: dict[str, Any] = {
        "model": _model(models, placement),
        "max_copies": copies.max_copies,
        "sleep_after_minutes": copies.sleep_after_minutes,
        "memory_mib": copies.memory_mib,
        "cpus": copies.cpus,
        "gpus": copies.gpus,
        "environment": placement.variant.environment,
        "container": placement.variant.container,
        "scaling": scaling[1] if scaling else None,
    }
    if not copies.sleep_after_minutes:
        given["min_copies"] = copies.min_copies
    return Component(**given)


def _set(table: Table) -> dict[str, Any]:
    """The keys of a table that were set."""
    return {name: getattr(table, name) for name in table.model_fields_set}


def _known(value: str, otherwise: str) -> str:
    return otherwise if cdk.Token.is_unresolved(value) else value


def _say(endpoint: CheckedEndpoint, finding: Finding) -> None:
    allowed = f"; allowed: {finding.allowed}" if finding.allowed else ""
    allowed = _SCALING_TABLE.sub("an EndpointScaling, which is this table", allowed)
    text = f"{_argument(finding.key)}: {finding.problem}{allowed}; {finding.remedy}"
    annotations = _annotate(endpoint, finding.key)
    if finding.severity is Severity.ERROR and finding.rule not in _WARNINGS:
        annotations.add_error(f"{text} [{finding.acknowledgement}]")
    elif finding.severity in (Severity.ERROR, Severity.WARNING):
        annotations.add_warning_v2(finding.acknowledgement, text)


def _annotate(endpoint: CheckedEndpoint, key: str) -> cdk.Annotations:
    """The annotations of the construct that a dotted key is about."""
    return cdk.Annotations.of(next(_constructs(endpoint, key)))


def _constructs(endpoint: CheckedEndpoint, key: str) -> Iterator[IConstruct]:
    key = _OF_COMPONENT.sub("variants.", key)
    for table, (construct, _) in endpoint.tables.items():
        if f"{key}.".startswith(f"{table}."):
            yield construct
    table, _, rest = key.partition(".")
    for variant in endpoint.variants:
        placement = variant.model.placement
        if table == "models" and placement and rest.startswith(f"{placement.variant.model}."):
            yield variant.model
    yield endpoint


def _argument(key: str) -> str:
    """The argument that a dotted key stands for: models.ranker.saved_model is ranker: folder."""
    table, _, rest = key.partition(".")
    if table in ("models", "variants") and rest:
        name, _, rest = rest.partition(".")
        return f"{name}: {_ARGUMENTS.get(rest, rest)}"
    return rest if table == "endpoint" and rest else key
