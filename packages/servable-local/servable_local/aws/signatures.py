"""The sender of a request: its key, and the signature that proves the key's secret.

A program with the secret of this run, or of a key that IAM or STS issued, is the owner. A key ID
alone proves nothing: a presigned URL publishes the ID of the key that signed it, and boto3
presigns with its usual key. A separate key for presigned URLs would need settings that no client
has, and one check of the signature serves headers and presigned URLs alike.

botocore's own signers compute the signature. Checks that only protect AWS from replays over a
network are omitted: the age of a signed header, and the token and the end of a session.
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
from servable_local.aws.errors import AccessError, Reason
from servable_local.aws.signed_request import CredentialScope, ReceivedRequest, RequestSignature

# An access key of twelve digits is the caller's account number.
_ACCOUNT = re.compile(r"\d{12}")
LONGEST_EXPIRY_SECONDS = 7 * 24 * 3600
# The largest body without its hash in a header, which is read before its signature is verified. Only
# S3 accepts larger bodies, and its clients send the header.
LARGEST_UNSTATED_BODY_BYTES = 32 << 20
HOW = '`eval "$(servable local up)"`, or `servable-local up`, sets the keys of this run'
# Reads the whole body, of at most so many bytes, or raises AccessError. Called once.
ReadBody = Callable[[int | None], bytes | ObjectContent]
# Proxies and Lambda add it to signed requests; botocore and other SDKs never sign it.
_NEVER_SIGNED = "x-amzn-trace-id"


@dataclass(frozen=True)
class AccessKey:
    account: str
    secret: str = field(repr=False)


class AccessKeys:
    """The account numbers, with the secret of this run, and the keys that IAM and STS issued."""

    def __init__(self, secret_access_key: str) -> None:
        self._secret = secret_access_key

    def find(self, access_key_id: str) -> AccessKey | None:
        """Return the key, or None if it is unknown or inactive."""
        if _ACCOUNT.fullmatch(access_key_id):
            return AccessKey(access_key_id, self._secret)
        # Imported here, because no key is issued before the first request.
        from moto.iam.models import iam_backends

        # Copied to lists, because a different thread may add an account.
        for account, partitions in list(iam_backends.items()):
            for iam in list(partitions.values()):
                key = iam.access_keys.get(access_key_id)
                if key is not None and key.status == "Active":
                    return AccessKey(account, key.secret_access_key)
        return None


@dataclass(frozen=True)
class VerifiedRequest:
    """The caller's account, the scope of its signature, and the body."""

    account: str
    scope: CredentialScope
    body: bytes | ObjectContent


class Verifier:
    """A verifier of signatures. `now`: seconds since the epoch; real time, not the alarms' clock."""

    def __init__(self, keys: AccessKeys, now: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._now = now

    def verify(self, request: ReceivedRequest, read: ReadBody) -> VerifiedRequest:
        """Return the verified request with its account. Raises AccessError.

        If the head states the body's hash, the body is only read after the signature has been
        verified.
        """
        signature = request.parse_signature()
        if signature is None:
            where = "in the Authorization header or in the query, as boto3, the AWS CLI, and the CDK CLI do"
            problem = f"the request isn't signed with Signature Version 4 {where}; {HOW}"
            raise AccessError(Reason.UNSIGNED, f"{problem}; presigned URLs need s3v4")
        scope = signature.scope
        key = self._keys.find(scope.access_key_id)
        if key is None:
            problem = f"{scope.access_key_id} isn't an active access key of this local AWS"
            use = "use an account number of twelve digits, or a key that IAM or STS issued since it started"
            raise AccessError(Reason.KEY, f"{problem}; {use}; {HOW}")
        self._check_expiry(signature)
        _check_headers(request, signature)
        payload = request.find_header("x-amz-content-sha256")
        if signature.expires_seconds is not None:
            payload = UNSIGNED_PAYLOAD if scope.service == "s3" else None
        body = read(LARGEST_UNSTATED_BODY_BYTES) if payload is None else None
        expected = _compute_signature(request, signature, key, payload or _compute_sha256(body))
        if not hmac.compare_digest(expected.encode(), signature.hexadecimal.encode()):
            problem = (
                f"the signature doesn't match this request and the secret of {scope.access_key_id}"
            )
            raise AccessError(Reason.SIGNATURE, f"{problem}; every run has its own secret: {HOW}")
        if body is None:
            body = read(None)
            # An interrupted client sends only a part of it.
            if signature.expires_seconds is None and payload != _compute_sha256(body):
                problem = (
                    f"X-Amz-Content-Sha256 is {str(payload)[:80]!r}, not the SHA-256 of the body"
                )
                remedy = "leave payload_signing_enabled on, so that your client sends it"
                raise AccessError(Reason.BODY, f"{problem}; {remedy}")
        return VerifiedRequest(key.account, scope, body)

    def _check_expiry(self, signature: RequestSignature) -> None:
        text = signature.expires_seconds
        if text is None:
            return
        seconds = int(text) if re.fullmatch("[0-9]{1,7}", text) else 0
        if not 1 <= seconds <= LONGEST_EXPIRY_SECONDS:
            allowed = f"1 to {LONGEST_EXPIRY_SECONDS} seconds are allowed"
            raise AccessError(Reason.FORM, f"X-Amz-Expires is {text[:40]!r}; {allowed}")
        try:
            signed = datetime.strptime(signature.date, SIGV4_TIMESTAMP).replace(tzinfo=UTC)
        except ValueError:
            problem = f"X-Amz-Date is {signature.date[:40]!r}; send one such as 20261122T093000Z"
            raise AccessError(Reason.FORM, problem) from None
        late = self._now() - signed.timestamp()
        if late > seconds:
            problem = f"it was valid for {seconds} s and is {late:.0f} s old; presign a new one"
            raise AccessError(Reason.EXPIRED, f"Request has expired: {problem}")


def _compute_sha256(body: bytes | ObjectContent | None) -> str:
    if isinstance(body, ObjectContent):
        return body.compute_digest("SHA256").hex()
    return hashlib.sha256(body or b"").hexdigest()


def _check_headers(request: ReceivedRequest, signature: RequestSignature) -> None:
    """Raise AccessError for an unsigned header, which the holder of a presigned URL could add."""
    unsigned = [
        name
        for name in request.names
        if (name == "host" or name.startswith("x-amz"))
        and name not in (*signature.signed_headers, _NEVER_SIGNED)
    ]
    if unsigned:
        raise AccessError(Reason.SIGNATURE, f"it sends {', '.join(unsigned)} without signing it")


def _compute_signature(
    request: ReceivedRequest, signature: RequestSignature, key: AccessKey, payload: str
) -> str:
    """Return botocore's signature of a request with this payload hash and the key's secret."""
    scope = signature.scope
    kind = S3SigV4Auth if scope.service == "s3" else SigV4Auth
    signer: Any = kind(Credentials(scope.access_key_id, key.secret), scope.service, scope.region)
    signed = HTTPHeaders()
    for name in signature.signed_headers:
        for value in request.list_values(name):
            # Clients sign UTF-8; WSGI decodes it as Latin-1.
            with contextlib.suppress(UnicodeError):
                value = value.encode("latin-1").decode("utf-8")
            signed.add_header(name, value)
    # The canonical request contains only these, as received.
    signer.headers_to_sign = lambda request: signed
    query = "&".join(
        f"{name}={value}" for name, value in request.pairs if name != "X-Amz-Signature"
    )
    # The URL's host is ignored; the Host header is signed.
    canonical_request = AWSRequest(
        method=request.method,
        url=f"http://host{request.path}?{query}",
        headers={"X-Amz-Content-SHA256": payload},
    )
    canonical_request.context["timestamp"] = signature.date
    text = signer.string_to_sign(canonical_request, signer.canonical_request(canonical_request))
    return str(signer.signature(text, canonical_request))
