"""S3"""

import json
from collections.abc import Mapping
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket


def install_access_logging() -> None:
    """Idempotent."""
    setattr(  # noqa: B010 - mypy forbids the plain form
        FakeBucket, "_log_permissions_enabled_policy", staticmethod(_permitted)
    )


def _permitted(target_bucket: FakeBucket, target_prefix: str | None) -> bool:
    return True


def install_bucket_policies() -> None:
    """Idempotent."""
    setattr(FakeBucket, "get_permission", _permission)  # noqa: B010 - mypy forbids the plain form


def _permission(bucket: FakeBucket, action: str, resource: str) -> Any:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    document = json.loads(bucket.policy)
    statements = document["Statement"]
    if isinstance(statements, dict):
        statements = [statements]
    applying = [
        {key: value for key, value in statement.items() if key != "Condition"}
        for statement in statements
        if _applies(statement.get("Condition", {}))
    ]
    policy = IAMPolicy(json.dumps(document | {"Statement": applying}))
    return policy.is_action_permitted(action, resource)


def _applies(condition: Mapping[str, Any]) -> bool:
    return all(
        operator == "Bool" and key.lower() == "aws:securetransport" and _is_true(wanted)
        for operator, keys in condition.items()
        for key, wanted in keys.items()
    )


def _is_true(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(str(one).lower() == "true" for one in values)
