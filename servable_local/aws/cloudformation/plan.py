"""What a template would do to a stack, without doing it: the contents of a change set."""

from servable_local.aws.cloudformation.blueprint import Blueprint
from servable_local.aws.cloudformation.change import Action, Change, changed_properties, replacing
from servable_local.aws.cloudformation.errors import TemplateError, ValidationError
from servable_local.aws.cloudformation.later import holds_later
from servable_local.aws.cloudformation.stack import Stack
from servable_local.aws.resources.registry import TYPES


def plan(stack: Stack, blueprint: Blueprint) -> list[Change]:
    """The changes in the order in which they would happen. Raises `ValidationError`."""
    changes = []
    for logical_id in blueprint.order:
        try:
            change = _change(stack, blueprint, logical_id)
        except TemplateError as error:
            raise ValidationError(str(error)) from None
        if change.action in (Action.ADD, Action.REPLACE):
            # Who refers to it gets a value that is known only afterwards.
            blueprint.scope.later.add(logical_id)
        changes.append(change)
    changes += [
        Change(Action.REMOVE, logical_id, resource.type, resource.physical_id)
        for logical_id, resource in stack.resources.items()
        if logical_id not in blueprint.declared
    ]
    return [change for change in changes if change.action is not Action.KEEP]


def _change(stack: Stack, blueprint: Blueprint, logical_id: str) -> Change:
    declared_type = blueprint.declared[logical_id]["Type"]
    properties = blueprint.properties(logical_id)
    current = stack.resources.get(logical_id)
    if current is None or current.type != declared_type:
        return Change(Action.ADD, logical_id, declared_type)
    changed = changed_properties(current.properties, properties)
    if not changed:
        return Change(Action.KEEP, logical_id, declared_type, current.physical_id)
    fixed = replacing(TYPES[declared_type], changed) if declared_type in TYPES else changed
    if not fixed:
        return Change(
            Action.MODIFY, logical_id, declared_type, current.physical_id, changed, "False"
        )
    certain = any(not holds_later(properties.get(name)) for name in fixed)
    return Change(
        Action.REPLACE,
        logical_id,
        declared_type,
        current.physical_id,
        changed,
        "True" if certain else "Conditional",
    )
