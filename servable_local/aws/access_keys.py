"""Whose an access key is, and the secret that goes with it."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# An access key of twelve digits is an account number: the caller is that account.
_ACCOUNT = re.compile(r"\d{12}")


@dataclass(frozen=True)
class AccessKey:
    account: str
    secret: str = field(repr=False)
    # Only of keys that STS issued.
    token: str | None = field(default=None, repr=False)
    expires: datetime | None = None
    active: bool = True


class AccessKeys:
    """Every account number with the secret of this run, and what IAM and STS have issued."""

    def __init__(self, secret_access_key: str) -> None:
        self._secret = secret_access_key

    def find(self, access_key_id: str) -> AccessKey | None:
        if _ACCOUNT.fullmatch(access_key_id):
            return AccessKey(access_key_id, self._secret)
        # Imported here: before the first request nothing was issued.
        from moto.iam.models import iam_backends

        # Lists: another thread may ask for an account that was not there yet.
        for account, partitions in list(iam_backends.items()):
            for partition, iam in list(partitions.items()):
                if (key := iam.access_keys.get(access_key_id)) is not None:
                    return _issued(account, partition, key)
        return None


def _issued(account: str, partition: str, key: Any) -> AccessKey:
    if key.user_name is not None:
        return AccessKey(account, key.secret_access_key, active=key.status == "Active")
    from servable_local.aws.corrections.session_keys import session_of

    session = session_of(account, partition, key)
    return AccessKey(account, key.secret_access_key, session.token, session.expires)
