"""IAM, STS, and KMS: secrets that can't be guessed, no simulation of policies, and key ARNs.

Upstream (moto 5.2.5): GetSessionToken and GetFederationToken issue one key to everybody, whose
secret is in moto's source; other secrets come from a generator for repeatable tests.
SimulatePrincipalPolicy doesn't exist. A policy isn't evaluated here, so neither "allowed" nor
"denied" would be true; callers such as SageMaker's SDK treat AccessDenied as "unknown".

KMS's operations that change a key's state only accept its ID, and AWS also accepts its ARN.
Source: https://docs.aws.amazon.com/kms/latest/APIReference/API_DisableKey.html
"""

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.iam.models import AccessKey, iam_backends
from moto.iam.responses import IamResponse
from moto.kms.models import KmsBackend
from moto.sts import urls
from moto.sts.responses import TokenResponse

from servable_local.aws.errors import AwsError

_BY_ID = {
    name: getattr(KmsBackend, name)
    for name in ("cancel_key_deletion", "disable_key", "enable_key", "schedule_key_deletion")
}
_MAKE = AccessKey.__init__
_SECRET_BYTES = 20  # 40 characters, as many as on AWS
_TOKEN_BYTES = 96


def install() -> None:
    """Patch IAM, STS, and KMS. Idempotent."""
    for name, method in _BY_ID.items():
        setattr(KmsBackend, name, _accept_arn(method))
    for operation in ("simulate_custom_policy", "simulate_principal_policy"):
        setattr(IamResponse, operation, _deny)
    setattr(AccessKey, "__init__", _initialize_key)  # noqa: B010 (mypy)
    urls.url_paths.update({"{0}/$": StsApi.dispatch})


def _accept_arn(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda backend, key_id, *more: method(backend, backend.get_key_id(key_id), *more)


def _deny(api: Any) -> None:
    problem = "is denied: the local AWS doesn't evaluate policies. On AWS, it needs the permission"
    raise AwsError("AccessDenied", f"{api._get_action()} {problem} of the same name.")


def _initialize_key(key: AccessKey, *arguments: Any, **more: Any) -> None:
    _MAKE(key, *arguments, **more)
    key.secret_access_key = generate_secret()


def generate_secret() -> str:
    """Return a secret access key: 160 random bits in hexadecimal."""
    return secrets.token_hex(_SECRET_BYTES)


class StsApi(TokenResponse):
    """The STS operations for sessions of the caller, which are keys of the caller's account."""

    def get_session_token(self) -> ActionResult:
        return ActionResult({"Credentials": self._create_session()})

    def get_federation_token(self) -> ActionResult:
        upstream = cast(dict[str, Any], super().get_federation_token().result)
        return ActionResult(upstream | {"Credentials": self._create_session()})

    def _create_session(self) -> dict[str, Any]:
        duration = timedelta(seconds=self._get_int_param("DurationSeconds", 43200))
        key = iam_backends[self.current_account][self.partition].create_temp_access_key()
        return {
            "AccessKeyId": key.access_key_id,
            "SecretAccessKey": key.secret_access_key,
            "SessionToken": secrets.token_urlsafe(_TOKEN_BYTES),
            "Expiration": utcnow() + duration,
        }
