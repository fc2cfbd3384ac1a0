"""Template values become what a service's API takes, by botocore's model of that API.

CloudFormation accepts "5" for 5 and "true" for true; an API does not. A property that the
API does not know is refused by name: nothing in a template is silently left out.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

import botocore.loaders
import botocore.model

from servable_local.aws.resources.resource_type import Properties, ResourceError


@functools.cache
def service_model(service: str) -> botocore.model.ServiceModel:
    document = botocore.loaders.Loader().load_service_model(service, "service-2")
    return botocore.model.ServiceModel(document, service_name=service)


def fit(properties: Properties, service: str, operation: str) -> dict[str, Any]:
    """The operation's arguments. Raises `ResourceError` naming what does not fit."""
    shape = service_model(service).operation_model(operation).input_shape
    fitted = _fit(dict(properties), shape, "")
    assert isinstance(fitted, dict)
    return fitted


def _fit(value: Any, shape: Any, path: str) -> Any:
    kind = shape.type_name
    if kind == "structure":
        return _structure(value, shape, path)
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [_fit(item, shape.member, f"{path}/{n}") for n, item in enumerate(items)]
    if kind == "map":
        return {key: _fit(item, shape.value, f"{path}/{key}") for key, item in value.items()}
    if kind == "string":
        return _string(value, shape, path)
    if kind == "boolean":
        return _boolean(value, path)
    if kind in ("integer", "long", "float", "double"):
        return _number(value, kind, path)
    return value


def _structure(value: Any, shape: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ResourceError(f"{path or '/'}: {value!r} is not an object")
    unknown = sorted(set(value) - set(shape.members))
    if unknown:
        raise ResourceError(
            f"extraneous key [{', '.join(unknown)}] is not permitted at {path or '/'}; "
            f"allowed: {', '.join(sorted(shape.members))}"
        )
    missing = sorted(set(shape.required_members) - set(value))
    if missing:
        raise ResourceError(f"required key [{', '.join(missing)}] not found at {path or '/'}")
    return {key: _fit(item, shape.members[key], f"{path}/{key}") for key, item in value.items()}


def _string(value: Any, shape: Any, path: str) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value)  # a policy document, for example
    text = str(value).lower() if isinstance(value, bool) else str(value)
    allowed = getattr(shape, "enum", None)
    if allowed and text not in allowed:
        raise ResourceError(
            f"{path}: {text} is not a valid enum value; allowed: {', '.join(allowed)}"
        )
    return text


def _boolean(value: Any, path: str) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise ResourceError(f"{path}: {value!r} is not true or false")
    return str(value).lower() == "true"


def _number(value: Any, kind: str, path: str) -> int | float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ResourceError(f"{path}: {value!r} is not a number") from None
    if kind in ("float", "double"):
        return number
    if number != int(number):
        raise ResourceError(f"{path}: {value!r} is not a whole number")
    return int(value) if isinstance(value, (int, str)) else int(number)
