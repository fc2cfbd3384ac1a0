"""KMS: keys do what their usage says, and less while they are disabled; they have a period of rotation.

Upstream (moto 5.2.5): a key is rotated or not, a disabled one works as before, any key encrypts, and material
of every key may be imported. Pairs of data keys and shared secrets are not there.
Sources: https://docs.aws.amazon.com/kms/latest/APIReference/API_EnableKeyRotation.html,
https://docs.aws.amazon.com/kms/latest/APIReference/API_GetKeyRotationStatus.html,
https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html;
tests/servable_local/aws/aws_answers.jsonl in the repository has what was recorded.
"""

import base64
import hashlib
import json
import re
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from moto.core.exceptions import JsonRESTError
from moto.kms import models, utils
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
# https://docs.aws.amazon.com/kms/latest/developerguide/rotating-keys-on-demand.html
_MOST_ROTATIONS = 25
# What a key does while it is enabled only, by its usage, and what only a symmetric key does.
_USAGES = {
    "ENCRYPT_DECRYPT": (
        "Decrypt",
        "Encrypt",
        "GenerateDataKey",
        "GenerateDataKeyPair",
        "GenerateDataKeyPairWithoutPlaintext",
        "GenerateDataKeyWithoutPlaintext",
        "ReEncrypt",
    ),
    "GENERATE_VERIFY_MAC": ("GenerateMac", "VerifyMac"),
    "KEY_AGREEMENT": ("DeriveSharedSecret",),
    "SIGN_VERIFY": ("Sign", "Verify"),
}
_ROTATION = ("DisableKeyRotation", "EnableKeyRotation", "RotateKeyOnDemand")
OF_ENABLED = (*_ROTATION, *(name for names in _USAGES.values() for name in names))
# The usages of a kind of key, https://docs.aws.amazon.com/kms/latest/developerguide/symm-asymm-choose-key-spec.html
_OF_SPECS = (
    ("SYMMETRIC_DEFAULT", ["ENCRYPT_DECRYPT"]),
    ("HMAC_", ["GENERATE_VERIFY_MAC"]),
    ("RSA_", ["ENCRYPT_DECRYPT", "SIGN_VERIFY"]),
    ("ECC_NIST_P", ["SIGN_VERIFY", "KEY_AGREEMENT"]),
    ("SM2", ["ENCRYPT_DECRYPT", "SIGN_VERIFY", "KEY_AGREEMENT"]),
    ("", ["SIGN_VERIFY"]),
)
# What is refused of a key that is to be deleted, of https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html
OF_NOT_PENDING = (
    *("CreateAlias", "DisableKey", "EnableKey", "ScheduleKeyDeletion", "TagResource"),
    *("UntagResource", "UpdateAlias", "UpdateKeyDescription"),
)
OF_GRANTS = ("CreateGrant", "ListGrants", "RetireGrant", "RevokeGrant")
# What is asked of keys whose material was imported.
OF_IMPORTED = ("DeleteImportedKeyMaterial", "GetParametersForImport", "ImportKeyMaterial")


def install() -> None:
    """Idempotent."""
    setattr(KmsResponse, "enable_key_rotation", _enable)  # noqa: B010 (mypy)
    setattr(KmsResponse, "get_key_rotation_status", _status)  # noqa: B010
    setattr(models, "generate_key_id", _new_id)  # noqa: B010
    setattr(KmsResponse, "_validate_cmk_id", _validate)  # noqa: B010
    setattr(Key, "to_dict", _shown)  # noqa: B010
    for name, more in _MORE.items():
        method = getattr(KmsResponse, name)
        if method.__module__ != __name__:
            setattr(KmsResponse, name, _answered(method, more))
    for name in ("generate_data_key_pair", "generate_data_key_pair_without_plaintext"):
        setattr(KmsResponse, name, _data_key_pair)
    setattr(KmsResponse, "derive_shared_secret", _shared_secret)  # noqa: B010
    for name, method in _BY_ID.items():
        setattr(KmsBackend, name, _by_arn_too(method))


def _by_arn_too(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda backend, key_id, *more: method(backend, backend.get_key_id(key_id), *more)


def _new_id(multi_region: bool = False) -> str:
    return f"mrk-{uuid.uuid4().hex}" if multi_region else str(uuid.uuid4())


def _validate(api: Any, key_id: str) -> None:
    """A key of several regions has an id of its own form, which moto does not know."""
    region = (key_id.split(":") + [""] * 3)[3]
    if key_id.startswith("arn:") and region != api.region:
        raise NotFoundException(f"Invalid arn {region}")
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
    metadata = shown["KeyMetadata"]
    if key.key_spec == "SYMMETRIC_DEFAULT" and key.origin != "EXTERNAL":
        metadata["CurrentKeyMaterialId"] = _material(key)
    for kind, algorithms in _algorithms(key).items():
        metadata[kind] = algorithms or None
    return shown


def _material(key: Any) -> str:
    """The name of a key's material, which AWS makes of it; every rotation makes another."""
    rotations = len(key.rotations) or ""
    return hashlib.sha256(f"{key.id}{rotations}".encode()).hexdigest()


def _algorithms(key: Any) -> dict[str, list[str]]:
    """What its answers call them, and which of them the key has for its usage."""
    usage = key.key_usage
    return {
        "EncryptionAlgorithms": (usage == "ENCRYPT_DECRYPT" and key.encryption_algorithms) or [],
        "SigningAlgorithms": (usage == "SIGN_VERIFY" and key.signing_algorithms) or [],
        "KeyAgreementAlgorithms": ["ECDH"] if usage == "KEY_AGREEMENT" else [],
        "MacAlgorithms": [key.key_spec.replace("_", "_SHA_")]
        if usage == "GENERATE_VERIFY_MAC"
        else [],
    }


def named(backend: Any, name: str) -> Any:
    """The key of an id, an alias, or the ARN of one; None where there is none."""
    name = backend.get_alias_name(name)
    of_alias = name.startswith("alias/")
    return backend.keys.get(
        backend.get_key_id_from_alias(name) if of_alias else backend.get_key_id(name)
    )


def _key(api: Any, given: _Given) -> Any:
    return named(api.kms_backend, str(given.get("KeyId", "")))


def _of_ciphertext(api: Any, given: _Given) -> Any:
    """The key that a text was encrypted with."""
    try:
        blob = base64.b64decode(given.get("CiphertextBlob", ""))
        key_id = utils._deserialize_ciphertext_blob(blob).key_id
    except (ValueError, struct.error):
        return None
    return api.kms_backend.keys.get(key_id)


def enabled(api: Any, given: _Given) -> _Problems:
    """Why a key does nothing now, or never does what is asked of it."""
    operation, keys = api._get_action(), [_key(api, given)]
    if operation in ("Decrypt", "ReEncrypt"):
        named_as = given.get("KeyId" if operation == "Decrypt" else "SourceKeyId")
        by = _of_ciphertext(api, given)
        if named_as and by and named(api.kms_backend, named_as) not in (by, None):
            yield (
                "IncorrectKeyException",
                "The key ID in the request does not identify a CMK that can perform this operation.",
            )
        keys = [by]
        if operation == "ReEncrypt":
            keys.append(named(api.kms_backend, str(given.get("DestinationKeyId", ""))))
    for key in filter(None, keys):
        yield from unusable(key)
        yield from _unfit(key, operation, given)
    if all(keys) and given.get("DryRun"):
        message = "The request would have succeeded, but the DryRun option is set."
        yield "DryRunOperationException", message


def _unfit(key: Any, operation: str, given: _Given) -> _Problems:
    """Why the key is none for an operation: its usage, its kind, or that it was rotated too often."""
    if operation in _ROTATION:
        if key.key_spec != "SYMMETRIC_DEFAULT":
            yield "UnsupportedOperationException", ""
        if operation == "RotateKeyOnDemand" and len(key.rotations) >= _MOST_ROTATIONS:
            yield (
                "LimitExceededException",
                "The on-demand rotations limit has been reached for the given keyId. No more on-demand "
                f"rotations can be performed for this key: {key.arn}",
            )
    elif operation not in _USAGES[key.key_usage]:
        yield (
            "InvalidKeyUsageException",
            f"{key.arn} key usage is {key.key_usage} which is not valid for {operation}.",
        )
    known = [name for names in _algorithms(key).values() for name in names]
    for kind in ("EncryptionAlgorithm", "MacAlgorithm", "SigningAlgorithm"):
        if kind in given and given[kind] not in known:
            yield (
                "InvalidKeyUsageException",
                f"Algorithm {given[kind]} is incompatible with key spec {key.key_spec}.",
            )


def not_for_usage(given: _Given) -> _Problems:
    """Why there is no new key of its kind for a usage."""
    spec = given.get("KeySpec") or given.get("CustomerMasterKeySpec") or "SYMMETRIC_DEFAULT"
    usage = given.get("KeyUsage", "ENCRYPT_DECRYPT")
    usages = next(usages for start, usages in _OF_SPECS if spec.startswith(start))
    if usage not in usages:
        yield "ValidationException", f"KeyUsage {usage} is not compatible with KeySpec {spec}"


def unusable(key: Any) -> _Problems:
    """The same, of moto's key, or of None."""
    states = {"PendingDeletion": "pending deletion", "PendingImport": "pending import"}
    if key and key.key_state == "Disabled":
        yield "DisabledException", f"{key.arn} is disabled."
    if key and key.key_state in states:
        yield "KMSInvalidStateException", f"{key.arn} is {states[key.key_state]}."


def pending(api: Any, given: _Given) -> _Problems:
    """Why a key that is to be deleted is not changed."""
    key = named(api.kms_backend, str(given.get("KeyId", given.get("TargetKeyId", ""))))
    if key and key.key_state == "PendingDeletion":
        yield from unusable(key)


def grant(api: Any, given: _Given) -> _Problems:
    """Why a grant is not made, shown or withdrawn: its key is not there, or it is not."""
    if "KeyId" in given:
        api._validate_cmk_id(given["KeyId"])
    if api._get_action() == "CreateGrant":
        yield from pending(api, given)
    if api._get_action() == "RetireGrant":
        grants = [one for key in api.kms_backend.keys.values() for one in key.grants.values()]
        if "GrantToken" in given and given["GrantToken"] not in [one.token for one in grants]:
            yield "InvalidGrantTokenException", ""
        elif "GrantToken" not in given and given.get("GrantId") not in [one.id for one in grants]:
            yield "NotFoundException", f"Grant ID {given.get('GrantId')} not found"


def of_its_kind(api: Any, given: _Given) -> _Problems:
    """Why a key is never rotated, has no public key, or is not to be kept."""
    key, operation = _key(api, given), api._get_action()
    if not key:
        return
    if operation == "GetKeyRotationStatus" and key.key_spec != "SYMMETRIC_DEFAULT":
        yield "UnsupportedOperationException", ""
    if operation == "GetPublicKey" and key.key_spec.startswith(("SYMMETRIC", "HMAC")):
        yield "UnsupportedOperationException", ""
    if operation == "CancelKeyDeletion" and key.key_state != "PendingDeletion":
        yield "KMSInvalidStateException", f"{key.arn} is not pending deletion."


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


def _answered(method: Callable[..., Any], more: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """`method`, with what AWS says besides: of a key, by its ARN."""

    def answered(api: Any) -> str:
        answer = json.loads(method(api))
        key = _key(api, answer)
        return json.dumps(answer | more(api, key) | {"KeyId": key.arn})

    return answered


def _by(api: Any, algorithm: str) -> dict[str, str]:
    return {algorithm: api._get_param(algorithm) or "SYMMETRIC_DEFAULT"}


_MORE: Mapping[str, Callable[[Any, Any], Any]] = {
    "cancel_key_deletion": lambda api, key: {},
    "decrypt": lambda api, key: (
        _by(api, "EncryptionAlgorithm")
        | ({"KeyMaterialId": _material(key)} if key.key_spec == "SYMMETRIC_DEFAULT" else {})
    ),
    "encrypt": lambda api, key: _by(api, "EncryptionAlgorithm"),
    "get_public_key": lambda api, key: {"KeySpec": key.key_spec} | _algorithms(key),
    "re_encrypt": lambda api, key: (
        _by(api, "DestinationEncryptionAlgorithm") | _by(api, "SourceEncryptionAlgorithm")
    ),
    "rotate_key_on_demand": lambda api, key: {},
    "schedule_key_deletion": lambda api, key: {
        "KeyState": key.key_state,
        "PendingWindowInDays": api._get_param("PendingWindowInDays") or 30,
    },
}


def _data_key_pair(api: Any) -> str:
    """A private key, in DER and encrypted by the key, and its public one."""
    name, context = api._get_param("KeyId"), api._get_param("EncryptionContext", {})
    api._validate_key_id(name)
    spec = api._get_param("KeyPairSpec")
    if spec not in utils.KeySpec.rsa_key_specs() + utils.KeySpec.ecc_key_specs():
        raise NotImplementedError(f"pairs of {spec} are not made here")
    pair: Any = utils.generate_private_key(spec)
    private = pair.private_key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    encrypted, arn = api.kms_backend.encrypt(name, private, context)
    parts = {"PrivateKeyCiphertextBlob": encrypted, "PublicKey": pair.public_key()}
    if api._get_action() == "GenerateDataKeyPair":
        parts["PrivateKeyPlaintext"] = private
    answer = {part: base64.b64encode(value).decode() for part, value in parts.items()}
    return json.dumps({"KeyId": arn, "KeyPairSpec": spec, **answer})


def _shared_secret(api: Any) -> str:
    """What the key and another's public key have in common (ECDH)."""
    api._validate_key_id(api._get_param("KeyId"))
    key = _key(api, {"KeyId": api._get_param("KeyId")})
    try:
        other = serialization.load_der_public_key(base64.b64decode(api._get_param("PublicKey")))
        secret = key.private_key.private_key.exchange(ec.ECDH(), other)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise JsonRESTError("ValidationException", "") from None
    return json.dumps(
        {
            "KeyId": key.arn,
            "KeyAgreementAlgorithm": "ECDH",
            "KeyOrigin": key.origin,
            "SharedSecret": base64.b64encode(secret).decode(),
        }
    )


def _status(api: Any) -> str:
    status = json.loads(_STATUS(api))
    key = _key(api, {"KeyId": api._get_param("KeyId")})
    if status["KeyRotationEnabled"]:
        days = getattr(key, "servable_period_days", _DEFAULT_PERIOD_DAYS)
        status["RotationPeriodInDays"] = days
        status["NextRotationDate"] = key.creation_date + days * _DAY_SECONDS
    return json.dumps({"KeyId": key.arn, **status})
