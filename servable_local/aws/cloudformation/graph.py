"""In which order resources are made: what is referred to comes first."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from servable_local.aws.cloudformation.errors import ValidationError

_NAME = re.compile(r"\$\{([^!${}.][^${}.]*)")


def references(value: Any) -> Iterator[str]:
    """Every name that a Ref, GetAtt or Sub in this value speaks of, resources or not."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "Ref" and isinstance(item, str):
                yield item
            elif key == "Fn::GetAtt":
                yield item.split(".", 1)[0] if isinstance(item, str) else item[0]
            elif key == "Fn::Sub":
                yield from _NAME.findall(item if isinstance(item, str) else item[0])
            yield from references(item)


def dependencies(declaration: Mapping[str, Any]) -> set[str]:
    """The logical names that one resource's declaration waits for."""
    stated = declaration.get("DependsOn", [])
    named = {stated} if isinstance(stated, str) else set(stated)
    return named | set(references(declaration.get("Properties", {})))


def creation_order(waits_for: Mapping[str, set[str]]) -> list[str]:
    """Every name after all that it waits for; ties in the order given.

    Raises `ValidationError` for a circle, naming its members.
    """
    order: list[str] = []
    open_: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in open_:
            circle = ", ".join(open_[open_.index(name) :])
            raise ValidationError(f"Circular dependency between resources: [{circle}]")
        open_.append(name)
        for other in waits_for:
            if other in waits_for[name] and other != name:
                visit(other)
        open_.pop()
        order.append(name)

    for name in waits_for:
        visit(name)
    return order
