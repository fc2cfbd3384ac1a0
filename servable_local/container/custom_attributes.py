"""The header that says which model, version and method a request is for."""

import re
from collections.abc import Mapping

from servable_local.container.http_messages import Headers

HEADER = "X-Amzn-SageMaker-Custom-Attributes"


def parse(headers: Headers) -> dict[str, str]:
    """`tfs-model-name=a,tfs-method=predict` as a mapping; other attributes are not ours.

    Raises `ValueError` for a value that holds another "=": the image's Python side
    fails on it, its NGINX side passes over it.
    """
    found = re.findall(r"tfs-[a-z\-]+=[^,]+", headers.get(HEADER) or "")
    attributes: dict[str, str] = {}
    for attribute in found:
        name, value = attribute.split("=")
        attributes[name] = value
    return attributes


def parse_leniently(headers: Headers) -> dict[str, str]:
    """As `parse`, without the attributes that it would fail on."""
    header = headers.get(HEADER) or ""
    return {
        name: value
        for name, value in re.findall(r"(tfs-[a-z\-]+)=([^,]+)", header)
        if "=" not in value
    }


def model_path(
    attributes: Mapping[str, str], default_model: str, *, model: str | None = None
) -> str:
    """The model server's path for these attributes; `model` outdoes the header's."""
    path = f"/v1/models/{model or attributes.get('tfs-model-name') or default_model}"
    if attributes.get("tfs-model-version"):
        path += f"/versions/{attributes['tfs-model-version']}"
    return f"{path}:{attributes.get('tfs-method') or 'predict'}"
