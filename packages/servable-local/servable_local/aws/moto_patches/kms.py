"""Let a KMS key's ARN name it in the operations that change its state.

Upstream (moto 5.2.5): these operations take a key's ID only, and AWS takes its ARN too.
Source: https://docs.aws.amazon.com/kms/latest/APIReference/API_DisableKey.html
"""

from collections.abc import Callable
from typing import Any

from moto.kms.models import KmsBackend

_BY_ID = {
    name: getattr(KmsBackend, name)
    for name in ("cancel_key_deletion", "disable_key", "enable_key", "schedule_key_deletion")
}


def install() -> None:
    """Patch KMS. Idempotent."""
    for name, method in _BY_ID.items():
        setattr(KmsBackend, name, _take_arn(method))


def _take_arn(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda backend, key_id, *more: method(backend, backend.get_key_id(key_id), *more)
