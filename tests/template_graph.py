"""What waits for what in a template: references, attributes, substitutions and DependsOn."""

import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any

Template = Mapping[str, Any]


def waits_for(template: Template) -> dict[str, set[str]]:
    """{resource: the resources that CloudFormation makes before it}."""
    resources = template["Resources"]
    found = {}
    for name, resource in resources.items():
        depends = resource.get("DependsOn", [])
        direct = {depends} if isinstance(depends, str) else set(depends)
        direct |= set(_references(resource.get("Properties", {})))
        found[name] = direct & set(resources)
    return found


def in_order(template: Template) -> list[str]:
    """Raises graphlib.CycleError where there is a circle."""
    return list(TopologicalSorter(waits_for(template)).static_order())


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
        for one in value.values():
            yield from imports(one)
    elif isinstance(value, list):
        for one in value:
            yield from imports(one)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _references(one)
    if not isinstance(value, Mapping):
        return
    for key, inside in value.items():
        if key == "Ref":
            yield inside
        elif key == "Fn::GetAtt":
            yield inside[0] if isinstance(inside, list) else inside.split(".")[0]
        elif key == "Fn::Sub":
            text, more = inside if isinstance(inside, list) else (inside, {})
            yield from (one.split(".")[0] for one in re.findall(r"\$\{([^!}]+)\}", text))
            yield from _references(more)
        else:
            yield from _references(inside)
