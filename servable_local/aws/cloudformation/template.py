"""The text of a template becomes a dictionary: JSON, or YAML with CloudFormation's short tags."""

import json
from typing import Any

import yaml

from servable_local.aws.cloudformation.errors import ValidationError

Template = dict[str, Any]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML as CloudFormation reads it: `2012-10-17` is a policy version, never a date."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _short_tag(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {name: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _short_tag)


def parse(text: str) -> Template:
    """Raises `ValidationError` for what is neither, or holds no resources."""
    try:
        template = json.loads(text)
    except ValueError:
        try:
            template = yaml.load(text, Loader=_Loader)
        except yaml.YAMLError as error:
            raise ValidationError(f"Template format error: {error}") from None
    if not isinstance(template, dict) or not template.get("Resources"):
        raise ValidationError(
            "Template format error: At least one Resources member must be defined."
        )
    for logical_id, resource in template["Resources"].items():
        if not isinstance(resource, dict) or not isinstance(resource.get("Type"), str):
            raise ValidationError(
                f"Template format error: [/Resources/{logical_id}] Every Resources object must "
                "contain a Type member."
            )
    return template
