"""KMS: keys have a period of rotation, and do less while they are disabled.

Upstream (moto 5.2.5): a key is rotated or not, a disabled one works as before, and material of every key
may be imported.
Sources: https://docs.aws.amazon.com/kms/latest/APIReference/API_EnableKeyRotation.html,
https://docs.aws.amazon.com/kms/latest/APIReference/API_GetKeyRotationStatus.html,
https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html;
tests/servable_local/aws/aws_answers.jsonl in the repository has what was recorded.
"""

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moto.kms import models
from moto.kms.exceptions import NotFoundException
from moto.kms.models import Key, KmsBackend
from moto.kms.responses import KmsResponse

_Given = Mapping[str, Any]
_Problems = Iterator[tuple[str, str]]
_TO_DICT = Key.to_dict
_ENABLE = KmsResponse.enable_key_rotation
_STATUS = KmsResponse.get_key_rotation_status
_VALIDATE = KmsResponse._validate_cmk_id
# These are told a key's id alone by moto, and by AWS's callers its ARN too.
_BY_ID = {
    name: getattr(KmsBackend, name)
    for name in ("cancel_key_deletion", "disable_key", "enable_key", "schedule_key_deletion")
}
# https://docs.aws.amazon.com/kms/latest/developerguide/multi-region-keys-overview.html
_MULTI_REGION = re.compile(r"mrk-[0-9a-f]{32}")
_DAY_SECONDS = 86_400
_DEFAULT_PERIOD_DAYS = 365
# What a key does while it is enabled only.
OF_ENABLED = (
    "DisableKeyRotation",
    "EnableKeyRotation",
    "Encrypt",
    "GenerateDataKey",
    "GenerateDataKeyPair",
    "GenerateDataKeyPairWithoutPlaintext",
    "GenerateDataKeyWithoutPlaintext",
    "GenerateMac",
    "RotateKeyOnDemand",
    "Sign",
    "Verify",
    "VerifyMac",
)
# What is asked of keys whose material was imported.
OF_IMPORTED = ("DeleteImportedKeyMaterial", "GetParametersForImport", "ImportKeyMaterial")


def install() -> None:
    """Idempotent."""
    setattr(KmsResponse, "enable_key_rotation", _enable)  # noqa: B010 (mypy)
    setattr(KmsResponse, "get_key_rotation_status", _status)  # noqa: B010
    setattr(models, "generate_key_id", _new_id)  # noqa: B010
    setattr(KmsResponse, "_validate_cmk_id", _validate)  # noqa: B010
    setattr(Key, "to_dict", _shown)  # noqa: B010
    for name, method in _BY_ID.items():
        setattr(KmsBackend, name, _by_arn_too(method))


def _by_arn_too(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda backend, key_id, *more: method(backend, backend.get_key_id(key_id), *more)


def _new_id(multi_region: bool = False) -> str:
    return f"mrk-{uuid.uuid4().hex}" if multi_region else str(uuid.uuid4())


def _validate(api: Any, key_id: str) -> None:
    """A key of several regions has an id of its own form, which moto does not know."""
    if not _MULTI_REGION.fullmatch(key_id):
        _VALIDATE(api, key_id)
    elif key_id not in api.kms_backend.keys:
        raise NotFoundException(f"Key '{api._display_arn(key_id)}' does not exist")


def _shown(key: Any) -> Any:
    """With what every key has, and the name of its material, which AWS makes of it."""
    key.key_usage, key.multi_region = key.key_usage or "ENCRYPT_DECRYPT", bool(key.multi_region)
    if key.origin == "EXTERNAL" and key.key_state == "Enabled":  # nothing is imported here: 501
        key.key_state, key.enabled = "PendingImport", False
    shown = _TO_DICT(key)
    if key.key_spec == "SYMMETRIC_DEFAULT":
        material = hashlib.sha256(key.id.encode()).hexdigest()
        shown["KeyMetadata"]["CurrentKeyMaterialId"] = material
    return shown


def named(backend: Any, name: str) -> Any:
    """The key of an id, an alias, or the ARN of one; None where there is none."""
    name = backend.get_alias_name(name)
    of_alias = name.startswith("alias/")
    return backend.keys.get(
        backend.get_key_id_from_alias(name) if of_alias else backend.get_key_id(name)
    )


def _key(api: Any, given: _Given) -> Any:
    return named(api.kms_backend, str(given.get("KeyId", "")))


def enabled(api: Any, given: _Given) -> _Problems:
    """Why the key does nothing now."""
    yield from unusable(_key(api, given))


def unusable(key: Any) -> _Problems:
    """The same, of moto's key, or of None."""
    states = {"PendingDeletion": "pending deletion", "PendingImport": "pending import"}
    if key and key.key_state == "Disabled":
        yield "DisabledException", f"{key.arn} is disabled."
    if key and key.key_state in states:
        yield "KMSInvalidStateException", f"{key.arn} is {states[key.key_state]}."


def pending(api: Any, given: _Given) -> _Problems:
    """Why a key cannot be deleted again."""
    key = _key(api, given)
    if key and key.key_state == "PendingDeletion":
        yield from unusable(key)


def digest(given: _Given) -> _Problems:
    """Why a message that is said to be a digest is none of its algorithm."""
    name = given.get("SigningAlgorithm", "")
    bits = name.rpartition("_SHA_")[2]
    length = len(base64.b64decode(given.get("Message", "")))
    if given.get("MessageType") == "DIGEST" and bits.isdigit() and length * 8 != int(bits):
        yield "ValidationException", f"Digest is invalid length for algorithm {name}."


def imported(api: Any, given: _Given) -> _Problems:
    """Why the key's material cannot be imported."""
    key = _key(api, given)
    if key and key.origin != "EXTERNAL":
        yield (
            "UnsupportedOperationException",
            f"{key.arn} origin is {key.origin} which is not valid for this operation.",
        )


def _enable(api: Any) -> str:
    answer = _ENABLE(api)
    key = _key(api, {"KeyId": api._get_param("KeyId")})
    key.servable_period_days = api._get_param("RotationPeriodInDays") or _DEFAULT_PERIOD_DAYS
    return answer


def _status(api: Any) -> str:
    status = json.loads(_STATUS(api))
    key = _key(api, {"KeyId": api._get_param("KeyId")})
    if status["KeyRotationEnabled"]:
        days = getattr(key, "servable_period_days", _DEFAULT_PERIOD_DAYS)
        status["RotationPeriodInDays"] = days
        status["NextRotationDate"] = key.creation_date + days * _DAY_SECONDS
    return json.dumps({"KeyId": key.id, **status})
