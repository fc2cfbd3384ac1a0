"""What is published to a topic does not leave this machine.

Upstream (moto 5.2.5): a subscription of an https URL is posted to, wherever it is. AWS does
that too; but somebody who tries prod.toml here must not wake the person on call. Addresses
of this machine are posted to.
"""

from typing import Any
from urllib.parse import urlsplit

from moto.sns.models import Subscription

_PUBLISH = Subscription.publish
_HERE = ("127.0.0.1", "localhost", "::1")


def install() -> None:
    """Idempotent."""
    setattr(Subscription, "publish", _publish)  # noqa: B010 - mypy forbids the plain form


def _publish(subscription: Subscription, *arguments: Any, **more: Any) -> None:
    away = urlsplit(subscription.endpoint).hostname not in _HERE
    if subscription.protocol in ("http", "https") and away:
        return
    _PUBLISH(subscription, *arguments, **more)
