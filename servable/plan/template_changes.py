"""Finds the differences between two templates of one stack, by CloudFormation's properties."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra.policy.container import find_setting

Template = Mapping[str, Any]

# Types whose changes are listed value by value; changed resources of other types are counted.
SPELT_OUT = ("AWS::SageMaker::", "AWS::ApplicationAutoScaling::", "AWS::S3::Bucket")
CONFIG, MODEL = "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"
ENDPOINT, SETTINGS = "AWS::SageMaker::Endpoint", "DeploymentConfig"
# A list of these is compared with its order: a different order is a new configuration and a new fleet.
_ORDERED = "VariantName"
# They differ with every configuration; the alarms themselves are counted.
ROLLBACK_ALARMS = "DeploymentConfig.AutoRollbackConfiguration.Alarms["
# Keys that identify the elements of a list.
_NAMES = ("VariantName", "VariantPropertyType", "Key", "Name", "Id", "AlarmName")
LONGEST_SHOWN = 100
_PACKAGE = ":model-package/"
# Attributes next to the properties of a resource that are compared like properties.
_POLICIES = ("DeletionPolicy", "UpdateReplacePolicy")


@dataclass(frozen=True, kw_only=True)
class TemplateChange:
    """A change of one property, or of the resources of one type.

    `before` or `after` is None if the property didn't or doesn't exist.
    """

    resource: str
    """CloudFormation type, for example AWS::SageMaker::Model."""
    what: str
    before: str | None
    after: str | None
    stack: str = "endpoint"
    """The stack of the environment: endpoint or data."""

    def __str__(self) -> str:
        kind = self.resource.removeprefix("AWS::")
        if self.stack != "endpoint":
            kind = f"{self.stack} stack, {kind}"
        if self.before is None and self.after is None:
            return f"{kind}: {self.what}"
        if self.before is None:
            return f"{kind}: {self.what}: {self.after} (new)"
        new = "(gone)" if self.after is None else f"-> {self.after}"
        return f"{kind}: {self.what}: {self.before} {new}"


def list_changes(
    before: Template | None, after: Template, stack: str = "endpoint"
) -> list[TemplateChange]:
    """Return the changes between two templates; metadata and outputs are left out.

    `before` is None if nothing is deployed. `stack` is the environment's stack that the templates
    belong to.
    """
    old, new = _list_resources(before or {}), _list_resources(after)
    listed: list[TemplateChange] = []
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name in sorted({*old, *new}):
        kind = (new.get(name) or old[name])["Type"]
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        word = "new" if was is None else "gone" if now is None else "changed"
        if kind.startswith(SPELT_OUT) and word == "changed":
            listed += _compare_properties(kind, was or {}, now or {})
        else:
            counts[kind][word] += 1
    for kind, words in sorted(counts.items()):
        counted = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
        listed.append(TemplateChange(resource=kind, what=counted, before=None, after=None))
    return [replace(change, stack=stack) for change in listed]


def list_tag_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[TemplateChange]:
    """Return the changes of a stack's tags, which no template contains."""
    was, now = ({"Properties": {"Tags": tags}} for tags in (before, after))
    return list(_compare_properties("AWS::CloudFormation::Stack", was, now))


def predict_new_fleet(before: Template | None, after: Template) -> bool | None:
    """Return whether the change replaces the fleet; None if that is inconclusive.

    A new endpoint configuration comes with a new fleet. No page of AWS says whether UpdateEndpoint
    replaces instances if the configuration stays and only the deployment settings change.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html (2026-11-29)
    """
    if before is None or _find_fleet(before) != _find_fleet(after):
        return True
    old, new = (_select_resources(side, ENDPOINT) for side in (before, after))
    changed = any(old[name].get(SETTINGS) != new[name].get(SETTINGS) for name in old.keys() & new)
    return None if changed else False


def _find_fleet(template: Template) -> dict[str, Any]:
    """Return the endpoint configuration and its models. A batch's model isn't in any configuration."""
    configs, models = (_select_resources(template, kind) for kind in (CONFIG, MODEL))
    return configs | (_select_named(models, configs) if configs else models)


def describe_component_changes(before: Template, after: Template) -> list[str]:
    """Return a sentence for each inference component that is new, deleted, or changed.

    All of its properties except the name update in place: CloudFormation's schema (read
    2026-11-23).
    """
    old, new = _find_components(before), _find_components(after)
    sentences = []
    for name in sorted({*old, *new}):
        said = "is updated in place: new copies start next to the old ones, so both need to fit"
        if name not in new:
            said = "is deleted; requests that name it will be rejected"
        elif name not in old:
            said = "is new; requests can name it after the deployment succeeds"
        if old.get(name) != new.get(name):
            sentences.append(f"component {name} {said}")
    return sentences


def _find_components(template: Template) -> dict[str, tuple[Any, ...]]:
    """Return each component's properties and those of the models that they refer to, by name."""
    models = _select_resources(template, MODEL)
    components = _select_resources(template, "AWS::SageMaker::InferenceComponent").values()
    return {
        one["InferenceComponentName"]: (one, *_select_named(models, one).values())
        for one in components
    }


def _select_named(resources: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Return the resources that a value refers to."""
    text = json.dumps(value)
    return {name: one for name, one in resources.items() if f'"{name}"' in text}


def find_endpoint_name(template: Template) -> str | None:
    """Return the endpoint's name in a template; None if it has no endpoint."""
    endpoints = _select_resources(template, ENDPOINT).values()
    return next((str(one["EndpointName"]) for one in endpoints), None)


def find_log_group_names(template: Template) -> set[str]:
    """Return the fixed names of the template's log groups."""
    groups = _select_resources(template, "AWS::Logs::LogGroup").values()
    return {group["LogGroupName"] for group in groups if "LogGroupName" in group}


def is_endpoint_retained(template: Template) -> bool:
    """Return whether CloudFormation keeps an endpoint that is replaced or removed."""
    endpoints = _select_resources(template, ENDPOINT).values()
    return any(one.get("UpdateReplacePolicy") == "Retain" for one in endpoints)


def _select_resources(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    """Return the properties of the resources of a type, by logical ID."""
    resources = _list_resources(template).items()
    return {name: one["Properties"] for name, one in resources if one["Type"] == kind}


def _list_resources(template: Template) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "Type": resource["Type"],
            "Properties": {
                **resource.get("Properties", {}),
                **{policy: resource[policy] for policy in _POLICIES if policy in resource},
            },
        }
        for name, resource in template.get("Resources", {}).items()
    }


def _compare_properties(
    kind: str, was: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[TemplateChange]:
    old, new = (dict(_flatten(resource["Properties"], "")) for resource in (was, now))
    orders = [_find_orders(resource["Properties"]) for resource in (was, now)]
    for key in sorted(orders[0].keys() & orders[1]):
        first, then = (order[key] for order in orders)
        if [name for name in first if name in then] != [name for name in then if name in first]:
            whole = {"before": ", ".join(first), "after": ", ".join(then)}
            yield TemplateChange(resource=kind, what=f"order of {key}", **whole)
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before != after and not path.startswith(ROLLBACK_ALARMS):
            if path.endswith("ModelPackageName") and before is not None and after is not None:
                # Two versions of one registry are told by GROUP/VERSION.
                (registry, slash, old_version), (other, _, new_version) = (
                    arn.partition(_PACKAGE) for arn in (before, after)
                )
                if slash and registry == other:
                    before, after = old_version, new_version
            setting = find_setting(path.rpartition(".")[2])
            what = f"{path} (container.{setting})" if setting else path
            yield TemplateChange(resource=kind, what=what, before=before, after=after)


def _find_orders(properties: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the elements of each list whose order counts."""
    return {
        key: [element[_ORDERED] for element in elements]
        for key, elements in properties.items()
        if isinstance(elements, list)
        and all(isinstance(element, Mapping) and _ORDERED in element for element in elements)
    }


def _flatten(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, value) of every leaf; an intrinsic function is one leaf."""
    if isinstance(value, Mapping) and not _is_computed(value):
        for key, inner in value.items():
            yield from _flatten(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and all(_find_name(item) for item in value):
        for item in value:
            yield from _flatten(item, f"{path}[{_find_name(item)}]")
    else:
        yield path, _format_value(value)


def _is_computed(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))


def _find_name(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    name = next((value[key] for key in _NAMES if key in value), None)
    return None if name is None else _format_value(name)


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping) and _is_computed(value):
        ((function, inside),) = value.items()
        if function != "Fn::Join":
            return _format_value(inside)
        delimiter, parts = inside
        if not isinstance(parts, list):
            return _format_value(json.dumps(inside))
        # For example arn:${AWS::Partition}:s3:::bucket
        value = delimiter.join(
            one if isinstance(one, str) else f"${{{_format_value(one)}}}" for one in parts
        )
    text = value if isinstance(value, str) else json.dumps(value)
    # The end of a long address tells more than its beginning.
    return text if len(text) <= LONGEST_SHOWN else f"…{text[-LONGEST_SHOWN:]}"
