"""What earlier runs left: a kill -9 deletes nothing, the next run does."""

import datetime
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from servable.tune.temporary.marks import PREFIX, is_abandoned
from servable.tune.temporary.removal import remove_config, remove_endpoint, remove_model

# Endpoints first: they cost, and hold the others.
_KINDS = (
    ("list_endpoints", "Endpoints", "Endpoint", remove_endpoint),
    ("list_endpoint_configs", "EndpointConfigs", "EndpointConfig", remove_config),
    ("list_models", "Models", "Model", remove_model),
)


def sweep(client: Any) -> list[str]:
    """Removes what is abandoned; what it was, as "endpoint servable-temporary-…"."""
    now = datetime.datetime.now(datetime.UTC)
    removed = []
    for operation, key, kind, remove in _KINDS:
        for name, arn in list(_listed(client, operation, key, kind)):
            try:
                found = client.list_tags(ResourceArn=arn)["Tags"]
            except ClientError:
                continue  # it went meanwhile, or is not ours to look at
            if is_abandoned(name, {tag["Key"]: tag["Value"] for tag in found}, now):
                remove(client, name)
                removed.append(f"{kind} {name}")
    return removed


def _listed(client: Any, operation: str, key: str, kind: str) -> Iterator[tuple[str, str]]:
    for page in client.get_paginator(operation).paginate(NameContains=PREFIX):
        for one in page[key]:
            # NameContains finds it anywhere in the name.
            if one[f"{kind}Name"].startswith(PREFIX):
                yield one[f"{kind}Name"], one[f"{kind}Arn"]
