"""A request's head as received, and the contents of its signature.

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
    rf"(?P<Algorithm>{ALGORITHM}) Credential=(?P<Credential>[^,\s]+), "
    r"?SignedHeaders=(?P<SignedHeaders>[^,\s]+), ?Signature=(?P<Signature>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class CredentialScope:
    """The scope of a signature: an access key, with the date, Region, and service for it."""

    access_key_id: str
    date: str
    region: str
    service: str


@dataclass(frozen=True)
class RequestSignature:
    """A request's unverified signature; `expires_seconds` is only set for one in the query."""

    scope: CredentialScope
    signed_headers: tuple[str, ...]
    hexadecimal: str
    date: str
    expires_seconds: str | None = None


@dataclass(frozen=True)
class ReceivedRequest:
    """A request. `target` is the quoted path with the query; headers keep order and duplicates."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]

    @cached_property
    def _values_by_name(self) -> dict[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for name, value in self.headers:
            by_name.setdefault(name.lower(), []).append(value)
        return by_name

    def list_values(self, name: str) -> list[str]:
        return self._values_by_name.get(name, [])

    def find_header(self, name: str) -> str | None:
        """Return the first value of a header, named in lower case."""
        return next(iter(self.list_values(name)), None)

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the headers in lower case, each once."""
        return list(self._values_by_name)

    @cached_property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the query's names and values, still quoted."""
        query = self.target.partition("?")[2]
        return [
            (part.partition("=")[0], part.partition("=")[2]) for part in query.split("&") if part
        ]

    @property
    def is_signed_in_query(self) -> bool:
        return any(name.lower() == "x-amz-signature" for name, _ in self.pairs)

    @property
    def claimed_service(self) -> str | None:
        """Return the service in the credential, verified or not; None without a credential."""
        credential = (self.find_header("authorization") or "") + self.target
        match = re.search(_SCOPE, unquote(credential))
        return match.group(4) if match else None

    def parse_signature(self) -> RequestSignature | None:
        """Parse Signature Version 4 in the header or the query; None for both or neither.

        moto reads the service from the header: one next to a signed query could name any service.
        """
        authorization = self.find_header("authorization")
        if self.is_signed_in_query == (authorization is not None):
            return None
        if authorization is not None:
            match = _HEADER.fullmatch(authorization)
            fields = match.groupdict() if match else {}
            fields["Date"] = self.find_header("x-amz-date") or ""
        else:
            fields = {name.removeprefix("X-Amz-"): unquote(value) for name, value in self.pairs}
        scope = _SCOPE.fullmatch(fields.get("Credential", ""))
        if scope is None or fields.get("Algorithm") != ALGORITHM:
            return None
        return RequestSignature(
            scope=CredentialScope(*scope.groups()),
            signed_headers=tuple(fields.get("SignedHeaders", "").split(";")),
            hexadecimal=fields.get("Signature", ""),
            date=fields.get("Date", ""),
            expires_seconds=fields.get("Expires", "") if self.is_signed_in_query else None,
        )
