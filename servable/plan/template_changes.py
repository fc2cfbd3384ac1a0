"""What differs between two templates of one stack, in the words of CloudFormation's properties."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Template = Mapping[str, Any]

# Where a reader wants every value; of everything else, how many.
SPELT_OUT = ("AWS::SageMaker::", "AWS::ApplicationAutoScaling::")
NEW_FLEET = ("AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig")
# Others with every configuration; they are counted among the alarms.
ROLLBACK_ALARMS = "DeploymentConfig.AutoRollbackConfiguration.Alarms["
# What tells the elements of a list apart.
_NAMES = ("VariantName", "VariantPropertyType", "Key", "Name", "Id", "AlarmName")
LONGEST_SHOWN = 100
# They stand beside the properties of a resource; a change of one is a change of it.
_POLICIES = ("DeletionPolicy", "UpdateReplacePolicy")


@dataclass(frozen=True, kw_only=True)
class TemplateChange:
    """One property, or resources of one type. None: it is not there."""

    resource: str
    """Its type, as AWS::SageMaker::Model."""
    what: str
    before: str | None
    after: str | None


def changes(before: Template | None, after: Template) -> list[TemplateChange]:
    """`before` None: nothing is deployed. What the stack says about itself is left out."""
    old, new = _resources(before or {}), _resources(after)
    found: list[TemplateChange] = []
    counts: dict[str, Counter[str]] = {}
    for name in sorted({*old, *new}):
        kind = (new.get(name) or old[name])["Type"]
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        word = "new" if was is None else "gone" if now is None else "changed"
        if kind.startswith(SPELT_OUT) and word == "changed":
            found += _properties(kind, was or {}, now or {})
        else:
            counts.setdefault(kind, Counter())[word] += 1
    for kind, words in sorted(counts.items()):
        said = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
        found.append(TemplateChange(resource=kind, what=said, before=None, after=None))
    return found


def replaces_fleet(before: Template | None, after: Template) -> bool:
    """Whether another endpoint configuration is made, and with it another fleet."""

    def of(template: Template) -> dict[str, Any]:
        return {name: one for name, one in _resources(template).items() if one["Type"] in NEW_FLEET}

    return before is None or of(before) != of(after)


def endpoint_name(template: Template) -> str | None:
    """As the template has it."""
    for one in template.get("Resources", {}).values():
        if one["Type"] == "AWS::SageMaker::Endpoint":
            return str(one["Properties"]["EndpointName"])
    return None


def keeps_endpoint(template: Template) -> bool:
    """Whether CloudFormation leaves the endpoint where it replaces it."""
    return any(
        one["Type"] == "AWS::SageMaker::Endpoint" and one.get("UpdateReplacePolicy") == "Retain"
        for one in template.get("Resources", {}).values()
    )


def _resources(template: Template) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "Type": one["Type"],
            "Properties": {
                **one.get("Properties", {}),
                **{policy: one[policy] for policy in _POLICIES if policy in one},
            },
        }
        for name, one in template.get("Resources", {}).items()
    }


def _properties(
    kind: str, was: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[TemplateChange]:
    old, new = (dict(_flat(one["Properties"], "")) for one in (was, now))
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before != after and not path.startswith(ROLLBACK_ALARMS):
            yield TemplateChange(resource=kind, what=path, before=before, after=after)


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every leaf, with its path; what CloudFormation computes is one leaf."""
    if isinstance(value, Mapping) and not _computed(value):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and all(_name(one) for one in value):
        for one in value:
            yield from _flat(one, f"{path}[{_name(one)}]")
    else:
        yield path, _shown(value)


def _computed(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))


def _name(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    found = next((value[key] for key in _NAMES if key in value), None)
    return None if found is None else _shown(found)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping) and _computed(value):
        ((_, inside),) = value.items()
        return _shown(inside)
    text = value if isinstance(value, str) else json.dumps(value)
    # The end of a long address tells more than its beginning.
    return text if len(text) <= LONGEST_SHOWN else f"…{text[-LONGEST_SHOWN:]}"
