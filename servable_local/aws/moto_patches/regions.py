"""A service's regions, without its whole model being read for one word of it.

Upstream (moto 5.2.5): moto asks for the regions of each service that is used, and botocore reads the
service's model for its endpointPrefix: 1 s of processor time for EC2, which SSM imports and so every
`cdk bootstrap` needs, 0.4 s for the others of a deployment. It stands in the model's first lines.
"""

import functools
import gzip
import re
from pathlib import Path
from typing import Any

import botocore.loaders
import botocore.session
from botocore.regions import EndpointResolver

_PREFIX = re.compile(rb'"endpointPrefix"\s*:\s*"([^"]+)"')
_HEAD_BYTES = 4096
_WHOLE = botocore.session.Session.get_available_regions
_MODELS = botocore.loaders.Loader(include_default_search_paths=False)
_MODELS.search_paths.append(botocore.loaders.Loader.BUILTIN_DATA_PATH)


def install() -> None:
    """Idempotent."""
    setattr(botocore.session.Session, "get_available_regions", _available_regions)  # noqa: B010


def _available_regions(
    session: Any, service_name: str, partition_name: str = "aws", allow_non_regional: bool = False
) -> list[str]:
    prefix = _endpoint_prefix(service_name)
    if prefix is None:
        whole: list[str] = _WHOLE(session, service_name, partition_name, allow_non_regional)
        return whole
    return list(_endpoints().get_available_endpoints(prefix, partition_name, allow_non_regional))


@functools.cache
def _endpoints() -> EndpointResolver:
    return EndpointResolver(_MODELS.load_data("endpoints"))


@functools.cache
def _endpoint_prefix(service_name: str) -> str | None:
    """None where botocore has no such model."""
    files = Path(_MODELS.BUILTIN_DATA_PATH, service_name).glob("*/service-2.json.gz")
    newest = max(files, default=None)
    if newest is None:
        return None
    with gzip.open(newest) as file:
        found = _PREFIX.search(file.read(_HEAD_BYTES))
    return found[1].decode() if found else None
