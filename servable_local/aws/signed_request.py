"""A request's head as it came over the wire, and what it says of its signature.

Nothing here is checked against a secret: servable_local/aws/signatures.py does that.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

ALGORITHM = "AWS4-HMAC-SHA256"
# Credential=KEY/20261122/us-east-1/s3/aws4_request
_SCOPE = re.compile(
    r"([A-Za-z0-9_]{1,128})/(\d{8})/([a-z0-9-]{1,64})/([a-z0-9.-]{1,64})/aws4_request"
)
# As botocore and the AWS SDK for JavaScript write it.
_HEADER = re.compile(
    ALGORITHM + r" Credential=([^,\s]+), ?SignedHeaders=([^,\s]+), ?Signature=([0-9a-f]{64})"
)
_QUERY_NAMES = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
)


class FormError(Exception):
    """It is signed in a form that is not accepted. `str()` names the form."""


@dataclass(frozen=True)
class CredentialScope:
    """Credential scope of a signature: the access key, and the date, region and service it is for."""

    access_key_id: str
    date: str
    region: str
    service: str


@dataclass(frozen=True)
class RequestSignature:
    """A request's signature, not verified yet; `expires_seconds` only if it stands in the query."""

    scope: CredentialScope
    signed_headers: tuple[str, ...]
    hexadecimal: str
    date: str
    token: str | None
    expires_seconds: str | None = None


@dataclass(frozen=True)
class ReceivedRequest:
    """`target` is the path with the query, still quoted; headers in their order, duplicates too."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for name, value in self.headers:
            by_name.setdefault(name.lower(), []).append(value)
        return by_name

    def all(self, name: str) -> list[str]:
        return self._by_name.get(name, [])

    def header(self, name: str) -> str | None:
        """The first of that name, given in small letters."""
        return next(iter(self.all(name)), None)

    @property
    def names(self) -> Sequence[str]:
        """Names of the headers in lower case, each once."""
        return list(self._by_name)

    @cached_property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """The query's names and values, still quoted."""
        query = self.target.partition("?")[2]
        return [
            (part.partition("=")[0], part.partition("=")[2]) for part in query.split("&") if part
        ]

    @property
    def in_query(self) -> bool:
        return any(name.lower() == "x-amz-signature" for name, _ in self.pairs)

    @property
    def claimed_service(self) -> str | None:
        """The service in the credential, right or wrong; None without a credential."""
        credential = (self.header("authorization") or "") + self.target
        match = re.search(_SCOPE, unquote(credential))
        return match.group(4) if match else None

    def signature(self) -> RequestSignature | None:
        """None where it has none at all. Raises `FormError` for another form than SigV4's two."""
        names = {name.lower() for name, _ in self.pairs}
        authorization = self.header("authorization")
        if authorization is not None and self.in_query:
            raise FormError("it is signed twice, in a header and in the query")
        if authorization is not None:
            return self._in_header(authorization)
        if self.in_query:
            return self._in_query()
        if "awsaccesskeyid" in names or "signature" in names:
            raise FormError("its query is signed with Signature Version 2")
        if self.header("x-amzn-authorization") is not None:
            raise FormError("it is signed with Signature Version 3")
        if (self.header("content-type") or "").lower().startswith("multipart/form-data"):
            raise FormError("it is the form of a page, with a POST policy or without")
        return None

    def _in_header(self, authorization: str) -> RequestSignature:
        match = _HEADER.fullmatch(authorization)
        if match is None:
            scheme = authorization.split(" ", 1)[0][:40]
            problems = {
                ALGORITHM: "its Authorization header is not of the form that the AWS SDKs write",
                "AWS4-ECDSA-P256-SHA256": "it is signed with Signature Version 4A",
                "AWS": "it is signed with Signature Version 2",
            }
            raise FormError(problems.get(scheme, f"its Authorization is of the kind {scheme!r}"))
        date = self.header("x-amz-date")
        if date is None:
            raise FormError("it has no X-Amz-Date header")
        return RequestSignature(
            scope=_scope(match.group(1)),
            signed_headers=tuple(match.group(2).split(";")),
            hexadecimal=match.group(3),
            date=date,
            token=self.header("x-amz-security-token"),
        )

    def _in_query(self) -> RequestSignature:
        query: dict[str, str] = {}
        for name, value in self.pairs:
            if name in query:
                raise FormError(f"its query has {name[:40]} twice")
            query[name] = value
        missing = [name for name in _QUERY_NAMES if name not in query]
        if missing:
            raise FormError(f"its query is signed without {', '.join(missing)}")
        if query["X-Amz-Algorithm"] != ALGORITHM:
            raise FormError(f"its query is signed with {unquote(query['X-Amz-Algorithm'])[:40]!r}")
        token = query.get("X-Amz-Security-Token")
        return RequestSignature(
            scope=_scope(unquote(query["X-Amz-Credential"])),
            signed_headers=tuple(unquote(query["X-Amz-SignedHeaders"]).split(";")),
            hexadecimal=query["X-Amz-Signature"],
            date=query["X-Amz-Date"],
            token=None if token is None else unquote(token),
            expires_seconds=query["X-Amz-Expires"],
        )


def _scope(credential: str) -> CredentialScope:
    match = _SCOPE.fullmatch(credential)
    if match is None:
        raise FormError(
            "its credential is not of the form KEY/yyyymmdd/region/service/aws4_request"
        )
    return CredentialScope(*match.groups())
