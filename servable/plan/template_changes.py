"""Differences between two templates of one stack, by CloudFormation's properties."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra.policy.container import setting_of

Template = Mapping[str, Any]

# Where a reader wants every value; of everything else, how many.
SPELT_OUT = ("AWS::SageMaker::", "AWS::ApplicationAutoScaling::", "AWS::S3::Bucket")
CONFIG, MODEL = "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"
ENDPOINT, SETTINGS = "AWS::SageMaker::Endpoint", "DeploymentConfig"
# A list of these is compared with its order: another order is another configuration, and a new fleet.
_ORDERED = "VariantName"
# Others with every configuration; they are counted among the alarms.
ROLLBACK_ALARMS = "DeploymentConfig.AutoRollbackConfiguration.Alarms["
# What tells the elements of a list apart.
_NAMES = ("VariantName", "VariantPropertyType", "Key", "Name", "Id", "AlarmName")
LONGEST_SHOWN = 100
_PACKAGE = ":model-package/"
# They stand beside the properties of a resource; a change of one is a change of it.
_POLICIES = ("DeletionPolicy", "UpdateReplacePolicy")


@dataclass(frozen=True, kw_only=True)
class TemplateChange:
    """A change of one property, or of resources of one type. None: it does not exist."""

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


def changes(
    before: Template | None, after: Template, stack: str = "endpoint"
) -> list[TemplateChange]:
    """Return the changes between two templates; metadata and outputs are left out.

    `before` None: nothing is deployed. `stack`: the stack of the environment that has them.
    """
    old, new = _resources(before or {}), _resources(after)
    listed: list[TemplateChange] = []
    counts: dict[str, Counter[str]] = {}
    for name in sorted({*old, *new}):
        kind = (new.get(name) or old[name])["Type"]
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        word = "new" if was is None else "gone" if now is None else "changed"
        if kind.startswith(SPELT_OUT) and word == "changed":
            listed += (
                replace(each, stack=stack) for each in _properties(kind, was or {}, now or {})
            )
        else:
            counts.setdefault(kind, Counter())[word] += 1
    for kind, words in sorted(counts.items()):
        counted = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
        counts_of = TemplateChange(
            resource=kind, what=counted, before=None, after=None, stack=stack
        )
        listed.append(counts_of)
    return listed


def replaces_fleet(before: Template | None, after: Template) -> bool:
    """Whether the change creates a new endpoint configuration, and with it a new fleet."""
    return before is None or _fleet(before) != _fleet(after)


def changes_deployment_settings(before: Template | None, after: Template) -> bool:
    """Return whether the change gives an existing endpoint other deployment settings."""
    return before is not None and any(
        one["Type"] == ENDPOINT
        and name in _resources(after)
        and one["Properties"].get(SETTINGS) != _resources(after)[name]["Properties"].get(SETTINGS)
        for name, one in _resources(before).items()
    )


def _fleet(template: Template) -> dict[str, Any]:
    """The endpoint configuration and its models; a batch's model is in none."""
    resources = _resources(template)
    configs = {name: one for name, one in resources.items() if one["Type"] == CONFIG}
    text = json.dumps(configs)
    models = {
        name: one
        for name, one in resources.items()
        if one["Type"] == MODEL and (f'"{name}"' in text or not configs)
    }
    return configs | models


def component_changes(before: Template, after: Template) -> list[str]:
    """Return a sentence for each inference component that is new, gone or changed.

    All of its properties but the name update in place: CloudFormation's schema (read 2026-11-23).
    """
    old, new = _components(before), _components(after)
    sentences = []
    for name in sorted({*old, *new}):
        if name not in new:
            said = "is deleted; requests that name it are refused"
        elif name not in old:
            said = "is new; requests may name it when the deployment has succeeded"
        elif old[name] != new[name]:
            said = "is updated in place: new copies start beside the old ones, which need room"
        else:
            continue
        sentences.append(f"component {name} {said}")
    return sentences


def _components(template: Template) -> dict[str, list[dict[str, Any]]]:
    """Name of a component to its properties, and those of the models that they refer to."""
    resources = _resources(template)
    found = {}
    for resource in resources.values():
        if resource["Type"] == "AWS::SageMaker::InferenceComponent":
            text = json.dumps(resource)
            models = (n for n, r in resources.items() if r["Type"] == MODEL and f'"{n}"' in text)
            parts = [resource["Properties"], *(resources[name]["Properties"] for name in models)]
            found[resource["Properties"]["InferenceComponentName"]] = parts
    return found


def endpoint_name(template: Template) -> str | None:
    """Return the endpoint's name in a template; None if it has no endpoint."""
    for resource in template.get("Resources", {}).values():
        if resource["Type"] == "AWS::SageMaker::Endpoint":
            return str(resource["Properties"]["EndpointName"])
    return None


def log_group_names(template: Template) -> set[str]:
    """Return the names of the template's log groups that are fixed."""
    resources = template.get("Resources", {}).values()
    groups = [one["Properties"] for one in resources if one["Type"] == "AWS::Logs::LogGroup"]
    return {group["LogGroupName"] for group in groups if "LogGroupName" in group}


def keeps_endpoint(template: Template) -> bool:
    """Whether CloudFormation keeps the old endpoint when it replaces it, or the template loses it."""
    return any(
        resource["Type"] == "AWS::SageMaker::Endpoint"
        and resource.get("UpdateReplacePolicy") == "Retain"
        for resource in template.get("Resources", {}).values()
    )


def _resources(template: Template) -> dict[str, dict[str, Any]]:
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


def _properties(
    kind: str, was: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[TemplateChange]:
    old, new = (dict(_flat(resource["Properties"], "")) for resource in (was, now))
    orders = (_orders(resource["Properties"]) for resource in (was, now))
    for what, earlier, later in _moved(*orders):
        yield TemplateChange(resource=kind, what=what, before=earlier, after=later)
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
            setting = setting_of(path.rpartition(".")[2])
            what = f"{path} (container.{setting})" if setting else path
            yield TemplateChange(resource=kind, what=what, before=before, after=after)


def _orders(properties: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the elements of each list whose order counts."""
    return {
        key: [element[_ORDERED] for element in value]
        for key, value in properties.items()
        if isinstance(value, list)
        and all(isinstance(element, Mapping) and _ORDERED in element for element in value)
    }


def _moved(
    was: Mapping[str, list[str]], now: Mapping[str, list[str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield (list, old order, new order) where the elements that both have changed places."""
    for key in sorted(was.keys() & now.keys()):
        old, new = (
            [n for n in side[key] if n in was[key] and n in now[key]] for side in (was, now)
        )
        if old != new:
            yield f"order of {key}", ", ".join(was[key]), ", ".join(now[key])


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, value) of every leaf; an intrinsic function is one leaf."""
    if isinstance(value, Mapping) and not _computed(value):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and all(_name(item) for item in value):
        for item in value:
            yield from _flat(item, f"{path}[{_name(item)}]")
    else:
        yield path, _shown(value)


def _computed(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))


def _name(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    name = next((value[key] for key in _NAMES if key in value), None)
    return None if name is None else _shown(name)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping) and _computed(value):
        ((function, inside),) = value.items()
        return _joined(inside) if function == "Fn::Join" else _shown(inside)
    text = value if isinstance(value, str) else json.dumps(value)
    # The end of a long address tells more than its beginning.
    return text if len(text) <= LONGEST_SHOWN else f"…{text[-LONGEST_SHOWN:]}"


def _joined(inside: Any) -> str:
    """The text of Fn::Join, for example arn:${AWS::Partition}:s3:::bucket."""
    delimiter, parts = inside
    if not isinstance(parts, list):
        return _shown(json.dumps(inside))
    texts = (one if isinstance(one, str) else f"${{{_shown(one)}}}" for one in parts)
    return _shown(delimiter.join(texts))
