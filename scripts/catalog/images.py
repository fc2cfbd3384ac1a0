"""images.json: the TensorFlow inference images that the SageMaker SDK knows."""

import json
from importlib import metadata, resources
from typing import Any

from sagemaker.core.common_utils import ALTERNATE_DOMAINS


def images() -> dict[str, Any]:
    """TensorFlow 2.x inference images: tag by version and device, account by region."""
    table = json.loads(
        resources.files("sagemaker.core").joinpath("image_uri_config/tensorflow.json").read_text()
    )["inference"]
    registries: list[dict[str, str]] = []
    versions: dict[str, Any] = {}
    aliases = table["version_aliases"]
    for version in sorted([*aliases, *table["versions"]], key=_order):
        row = table["versions"][aliases.get(version, version)]
        if not version.startswith("2.") or row["repository"] != "tensorflow-inference":
            continue
        if row["registries"] not in registries:
            registries.append(row["registries"])
        python = f"-{row['py_versions'][0]}" if row.get("py_versions") else ""
        versions[version] = {
            "tag": {device: f"{version}-{device}{python}" for device in table["processors"]},
            "registries": registries.index(row["registries"]),
        }
    return {
        "source": f"SageMaker Python SDK, sagemaker-core {metadata.version('sagemaker-core')}, "
        "image_uri_config/tensorflow.json",
        "repository": "tensorflow-inference",
        # Of regions outside the public partition; amazonaws.com elsewhere.
        "domains": ALTERNATE_DOMAINS,
        "registries": registries,
        "versions": versions,
    }


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
