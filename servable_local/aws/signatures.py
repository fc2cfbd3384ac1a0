"""Verification of a request's Signature Version 4, in the Authorization header or in the query.

Canonical forms and signatures are botocore's own. Accepted is what boto3, the AWS CLI and the
CDK CLI send to an http address (tests/servable_local/aws/recorded_requests.jsonl): the body's SHA-256 is
always signed, except in a presigned URL for S3. Bodies in signed chunks, or with a trailer, are
what the SDKs send over https only; they are refused by name.
"""

import contextlib
import hashlib
import hmac
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.auth import SIGV4_TIMESTAMP, UNSIGNED_PAYLOAD, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from servable_local.aws.contents import ObjectContent
from servable_local.aws.loopback import PREFIX, SERVICE
from servable_local.aws.refusals import AccessError, Reason
from servable_local.aws.signed_request import (
    CredentialScope,
    FormError,
    ReceivedRequest,
    RequestSignature,
)

# An access key of twelve digits is an account number: the caller is that account.
_ACCOUNT = re.compile(r"\d{12}")
SKEW_SECONDS = 15 * 60
LONGEST_EXPIRY_SECONDS = 7 * 24 * 3600
# The largest body whose hash stands in no header, so that it is read before its signature is known to
# be right. No service but S3 takes more; S3's clients send the header.
LARGEST_UNSTATED_BODY_BYTES = 32 << 20
HOW = '`eval "$(servable local up)"`, or `servable-local up`, sets the keys of this run'
# Called once, with the most bytes that the body may have: all of it, or AccessError.
ReadBody = Callable[[int | None], bytes | ObjectContent]
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
# Proxies and Lambda add it to what was signed before; botocore and the others never sign it.
_NEVER_SIGNED = "x-amzn-trace-id"


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

        from servable_local.aws.moto_patches.session_keys import session_of

        # Lists: another thread may ask for an account that was not there yet.
        for account, partitions in list(iam_backends.items()):
            for partition, iam in list(partitions.items()):
                if (key := iam.access_keys.get(access_key_id)) is None:
                    continue
                secret = key.secret_access_key
                if key.user_name is not None:
                    return AccessKey(account, secret, active=key.status == "Active")
                session = session_of(account, partition, key)
                return AccessKey(account, secret, session.token, session.expires)
        return None


@dataclass(frozen=True)
class VerifiedRequest:
    """The caller's account, what it signed for, and the body."""

    account: str
    scope: CredentialScope
    body: bytes | ObjectContent


class Verifier:
    """`now`: seconds since the epoch; real time, whatever the clock of alarms says."""

    def __init__(self, keys: AccessKeys, now: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._now = now

    def verify(self, request: ReceivedRequest, read: ReadBody) -> VerifiedRequest:
        """Raises AccessError. Nothing of the body is read before the head is known to be right,
        where the head states the body's hash."""
        try:
            signature = request.signature()
        except FormError as error:
            raise AccessError(
                Reason.FORM,
                f"{error}; the local AWS takes Signature Version 4 in the Authorization header "
                f"or in the query, as boto3, the AWS CLI and the CDK CLI send it; {HOW}, and ask "
                "for s3v4",
            ) from None
        if signature is None:
            raise AccessError(
                Reason.UNSIGNED,
                f"the request is not signed; the local AWS answers to its owner only; {HOW}",
            )
        # moto finds the service by the scope; ours alone is found by its path.
        if (signature.scope.service == SERVICE) != request.path.startswith(PREFIX):
            raise AccessError(
                Reason.SIGNATURE,
                f"it is signed for the service {signature.scope.service}, which does not answer "
                f"{request.path[:80]}",
            )
        self._check_time(signature)
        key = self._key(signature)
        _check_headers(request, signature)
        stated = _stated_hash(request, signature)
        if stated is not None:
            _check_signature(request, signature, key, stated)
            body = read(None)
            if stated not in (UNSIGNED_PAYLOAD, _sha256(body)):
                raise AccessError(
                    Reason.BODY, "the body is not the one whose SHA-256 was signed; send it again"
                )
        else:
            body = read(LARGEST_UNSTATED_BODY_BYTES)
            _check_signature(request, signature, key, _sha256(body))
        return VerifiedRequest(key.account, signature.scope, body)

    def _key(self, signature: RequestSignature) -> AccessKey:
        name = signature.scope.access_key_id
        key = self._keys.find(name)
        if key is None:
            raise AccessError(
                Reason.KEY,
                f"{name} is no access key of this local AWS: an account number of twelve digits "
                f"is, and what IAM and STS issued since it started; {HOW}",
            )
        if not key.active:
            raise AccessError(Reason.KEY, f"the access key {name} is inactive")
        if key.token is None and signature.token is not None:
            raise AccessError(
                Reason.TOKEN,
                f"{name} goes without a session token, and one was sent; unset AWS_SESSION_TOKEN",
            )
        if key.token is not None and not hmac.compare_digest(
            key.token.encode(), (signature.token or "").encode()
        ):
            raise AccessError(
                Reason.TOKEN, f"the session token is not the one that was issued with {name}"
            )
        if key.expires is not None:
            at = key.expires.replace(tzinfo=UTC) if key.expires.tzinfo is None else key.expires
            if self._now() > at.timestamp():
                raise AccessError(
                    Reason.TOKEN_EXPIRED, f"the session of {name} ended at {at:%H:%M:%S} UTC"
                )
        return key

    def _check_time(self, signature: RequestSignature) -> None:
        try:
            signed = datetime.strptime(signature.date, SIGV4_TIMESTAMP).replace(tzinfo=UTC)
        except ValueError:
            raise AccessError(
                Reason.FORM, f"X-Amz-Date is {signature.date[:40]!r} and not like 20261122T093000Z"
            ) from None
        if signature.date[:8] != signature.scope.date:
            raise AccessError(
                Reason.SIGNATURE,
                f"the credential is for {signature.scope.date}, and X-Amz-Date is {signature.date}",
            )
        late = self._now() - signed.timestamp()
        if signature.expires_seconds is None:
            if abs(late) > SKEW_SECONDS:
                raise AccessError(
                    Reason.CLOCK,
                    f"it was signed {abs(late):.0f} s {'ago' if late > 0 else 'from now'}, and "
                    f"{SKEW_SECONDS} s are allowed; set this computer's clock, or sign again",
                )
            return
        text = signature.expires_seconds
        seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
        if not 1 <= seconds <= LONGEST_EXPIRY_SECONDS:
            raise AccessError(
                Reason.FORM,
                f"X-Amz-Expires is {text[:40]!r}; 1 to {LONGEST_EXPIRY_SECONDS} seconds are allowed",
            )
        if late < -SKEW_SECONDS:
            raise AccessError(Reason.CLOCK, f"it was signed {-late:.0f} s from now; sign again")
        if late > seconds:
            raise AccessError(
                Reason.EXPIRED,
                f"Request has expired: it was good for {seconds} s, and {late:.0f} s are over; "
                "presign another",
            )


def _sha256(body: bytes | ObjectContent) -> str:
    digest = hashlib.sha256(body).digest() if isinstance(body, bytes) else body.digest("SHA256")
    return digest.hex()


def _check_headers(request: ReceivedRequest, signature: RequestSignature) -> None:
    signed = signature.signed_headers
    if list(signed) != sorted(set(signed)) or any(name != name.lower() for name in signed):
        raise AccessError(Reason.FORM, "its SignedHeaders are not sorted, in small letters")
    if missing := [name for name in signed if not request.all(name)]:
        raise AccessError(Reason.SIGNATURE, f"it signs {', '.join(missing)}, and does not send it")
    # Who uses a presigned URL sends a Content-Type that its maker did not know.
    names = ("host",) if signature.expires_seconds is not None else ("host", "content-type")
    unsigned = [
        name
        for name in request.names
        if (name in names or name.startswith("x-amz")) and name not in (*signed, _NEVER_SIGNED)
    ]
    if unsigned:
        raise AccessError(Reason.SIGNATURE, f"it sends {', '.join(unsigned)}, and does not sign it")


def _stated_hash(request: ReceivedRequest, signature: RequestSignature) -> str | None:
    """The payload hash in the canonical request; None: that of the body, not read yet."""
    stated = request.header("x-amz-content-sha256")
    if signature.expires_seconds is not None:
        if stated not in (None, UNSIGNED_PAYLOAD):
            raise AccessError(Reason.FORM, "a presigned URL, and a header X-Amz-Content-Sha256")
        return UNSIGNED_PAYLOAD if signature.scope.service == "s3" else None
    if stated is None:
        return None
    if len(stated) != len(_EMPTY_SHA256) or set(stated) - set("0123456789abcdef"):
        raise AccessError(
            Reason.FORM,
            f"X-Amz-Content-Sha256 is {stated[:60]!r}; the local AWS takes the SHA-256 of the "
            "body, which boto3, the AWS CLI and the CDK CLI send to an http address "
            "(payload_signing_enabled is not to be switched off)",
        )
    return stated


def _check_signature(
    request: ReceivedRequest, signature: RequestSignature, key: AccessKey, payload: str
) -> None:
    scope = signature.scope
    kind = S3SigV4Auth if scope.service == "s3" else SigV4Auth
    signer: Any = kind(Credentials(scope.access_key_id, key.secret), scope.service, scope.region)
    signed = HTTPHeaders()
    for name in signature.signed_headers:
        for value in request.all(name):
            # Clients sign UTF-8, which is received as bytes of Latin-1.
            with contextlib.suppress(UnicodeError):
                value = value.encode("latin-1").decode("utf-8")
            signed.add_header(name, value)
    # Only these are in the canonical request, and as they were received.
    signer.headers_to_sign = lambda request: signed
    query = "&".join(
        f"{name}={value}" for name, value in request.pairs if name != "X-Amz-Signature"
    )
    # The host is only there to make it an address: the header is what is signed.
    canonical_request = AWSRequest(
        method=request.method,
        url=f"http://host{request.path}?{query}",
        headers={"X-Amz-Content-SHA256": payload},
    )
    canonical_request.context["timestamp"] = signature.date
    text = signer.string_to_sign(canonical_request, signer.canonical_request(canonical_request))
    expected = str(signer.signature(text, canonical_request))
    if not hmac.compare_digest(expected.encode(), signature.hexadecimal.encode()):
        raise AccessError(
            Reason.SIGNATURE,
            "the signature is not the one of this request with the secret of "
            f"{signature.scope.access_key_id}; every run has a secret of its own: {HOW}",
        )
