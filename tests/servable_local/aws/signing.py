"""Requests as botocore's own signers sign them, as they then come over the wire, and as clients sent them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from servable_local.aws.signatures import AccessKey, AccessKeys, VerifiedRequest, Verifier
from servable_local.aws.signed_request import ReceivedRequest

ACCOUNT = "123456789012"
SECRET = "a-secret-of-a-test"
HOST = "127.0.0.1:4566"
REGION = "eu-west-1"


@dataclass(frozen=True)
class Sent:
    request: ReceivedRequest
    body: bytes = b""

    def with_header(self, name: str, value: str | None) -> "Sent":
        """In the place of the one of that name; None: without it."""
        others = [header for header in self.request.headers if header[0].lower() != name.lower()]
        added = [] if value is None else [(name, value)]
        return replace(self, request=replace(self.request, headers=[*others, *added]))

    def with_target(self, target: str) -> "Sent":
        return replace(self, request=replace(self.request, target=target))


@dataclass(frozen=True)
class Unsigned:
    """What is asked, before it is signed."""

    service: str = "s3"
    method: str = "GET"
    target: str = "/bucket/key"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    access_key_id: str = ACCOUNT
    secret: str = SECRET
    token: str | None = None

    def in_header(self, payload: str | None = None) -> Sent:
        """`payload`: signed instead of the body's SHA-256."""
        kind = S3SigV4Auth if self.service == "s3" else SigV4Auth

        def signer(credentials: Credentials) -> Any:
            made: Any = kind(credentials, self.service, REGION)
            if payload is not None:
                made.payload = lambda request: payload
            return made

        return self.by(signer)

    def is_signed_in_query(self, expires: int = 60) -> Sent:
        signer = S3SigV4QueryAuth if self.service == "s3" else SigV4QueryAuth
        # botocore would move a body into the query; S3 takes any, the others none.
        signed = replace(self, body=b"").by(
            lambda credentials: signer(credentials, self.service, REGION, expires)
        )
        return replace(signed, body=self.body) if self.service == "s3" else signed

    def by(self, signer: Callable[[Credentials], Any]) -> Sent:
        url = f"http://{HOST}{self.target}"
        asked = AWSRequest(self.method, url, dict(self.headers), self.body)
        signer(Credentials(self.access_key_id, self.secret, self.token)).add_auth(asked)
        parts = urlsplit(asked.url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = [("Host", HOST), *asked.headers.items()]
        return Sent(ReceivedRequest(self.method, target, headers), self.body)


def verified(sent: Sent, *, secret: str = SECRET, **more: Any) -> VerifiedRequest:
    return Verifier(AccessKeys(secret), **more).verify(sent.request, lambda limit: sent.body)


# --- what was recorded of real clients, and the keys they signed with

FILE = Path(__file__).with_name("recorded_requests.jsonl")
RUN_SECRET = "recorded-secret-of-the-run"


@dataclass(frozen=True)
class Recorded:
    client: str
    request: ReceivedRequest
    body: bytes


class RecordedKeys(AccessKeys):
    """As the server had them then."""

    def __init__(self, issued: list[dict[str, Any]]) -> None:
        super().__init__(RUN_SECRET)
        self._issued = {one["id"]: AccessKey(one["account"], one["secret"]) for one in issued}

    def find(self, access_key_id: str) -> AccessKey | None:
        return self._issued.get(access_key_id) or super().find(access_key_id)


@cache
def recorded() -> tuple[RecordedKeys, list[Recorded]]:
    first, *others = (json.loads(line) for line in FILE.read_text("utf-8").splitlines())
    requests = [
        Recorded(
            one["client"],
            ReceivedRequest(
                one["method"], one["target"], [(name, value) for name, value in one["headers"]]
            ),
            _body(one["body"]),
        )
        for one in others
    ]
    return RecordedKeys(first["keys"]), requests


def body_form(body: bytes) -> dict[str, Any]:
    """A body as JSON: its text, or how many zeros it is."""
    if len(body) > 1000 and not any(body):
        return {"zeros": len(body)}
    return {"latin-1": body.decode("latin-1")}


def _body(form: dict[str, Any]) -> bytes:
    return bytes(form["zeros"]) if "zeros" in form else form["latin-1"].encode("latin-1")
