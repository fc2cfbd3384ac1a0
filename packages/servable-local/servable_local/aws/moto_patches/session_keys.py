"""Every key that IAM and STS issue has a secret of its own, which nobody can guess.

Upstream (moto 5.2.5): GetSessionToken and GetFederationToken issue one key to everybody, whose
secret stands in moto's source; the secrets of other keys come from a generator that is made for
repeatable tests, not for secrets.
"""

import secrets
from datetime import timedelta
from typing import Any, cast

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.iam.models import AccessKey, iam_backends
from moto.sts import urls
from moto.sts.responses import TokenResponse

_MAKE = AccessKey.__init__
_SECRET_BYTES = 20  # 40 characters, as many as on AWS
_TOKEN_BYTES = 96


def install() -> None:
    """Patch IAM and STS. Idempotent."""
    setattr(AccessKey, "__init__", _make)  # noqa: B010 (mypy)
    urls.url_paths.update({"{0}/$": StsApi.dispatch})


def _make(key: AccessKey, *arguments: Any, **more: Any) -> None:
    _MAKE(key, *arguments, **more)
    key.secret_access_key = new_secret()


def new_secret() -> str:
    """Return a secret access key: 160 random bits in hexadecimal."""
    return secrets.token_hex(_SECRET_BYTES)


class StsApi(TokenResponse):
    """Sessions of the caller itself. They are keys of the caller's account."""

    def get_session_token(self) -> ActionResult:
        return ActionResult({"Credentials": self._session()})

    def get_federation_token(self) -> ActionResult:
        upstream = cast(dict[str, Any], super().get_federation_token().result)
        return ActionResult(upstream | {"Credentials": self._session()})

    def _session(self) -> dict[str, Any]:
        duration = timedelta(seconds=self._get_int_param("DurationSeconds", 43200))
        key = iam_backends[self.current_account][self.partition].create_temp_access_key()
        return {
            "AccessKeyId": key.access_key_id,
            "SecretAccessKey": key.secret_access_key,
            "SessionToken": secrets.token_urlsafe(_TOKEN_BYTES),
            "Expiration": utcnow() + duration,
        }
