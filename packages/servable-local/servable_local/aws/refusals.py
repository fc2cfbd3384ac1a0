"""Answers to callers who are denied access: in their client's form, with the reason alone."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from servable_local.aws import cbor
from servable_local.aws.signed_request import ReceivedRequest


class Reason(enum.Enum):
    """The codes of AWS for it: of S3, of services that answer in XML, of those in JSON.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and the
    "Common Errors" page of each other service.
    """

    NOT_FROM_HERE = ("AccessDenied", "AccessDenied", "AccessDeniedException")
    UNSIGNED = ("AccessDenied", "MissingAuthenticationToken", "MissingAuthenticationTokenException")
    FORM = ("InvalidRequest", "IncompleteSignature", "IncompleteSignatureException")
    KEY = ("InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException")
    SIGNATURE = ("SignatureDoesNotMatch", "SignatureDoesNotMatch", "InvalidSignatureException")
    BODY = ("XAmzContentSHA256Mismatch", "SignatureDoesNotMatch", "InvalidSignatureException")
    DISK = ("InternalError", "InternalFailure", "InternalFailure")
    EXPIRED = ("AccessDenied", "RequestExpired", "RequestExpired")


class AccessError(Exception):
    """The request is not answered. `str()` is a whole sentence: what was given, what to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Refusal:
    """An answer. Always 403: no AWS client sends a request of that status again by itself."""

    headers: Mapping[str, str]
    body: bytes
    status: str = "403 Forbidden"


def refusal(request: ReceivedRequest, error: AccessError) -> Refusal:
    """`error` as the service that `request` names would have put it."""
    s3, xml, in_json = error.reason.value
    text = str(error)
    service = request.claimed_service
    if cbor.spoken(request):
        return Refusal(cbor.HEADERS, cbor.error(in_json, text))
    if request.header("x-amz-target") or "json" in (request.header("content-type") or ""):
        return _in_json(in_json, text)
    if (request.header("content-type") or "").startswith("application/x-www-form-urlencoded"):
        if service == "ec2":
            return _in_xml(f"<Response><Errors>{_error('AuthFailure', text)}</Errors></Response>")
        return _in_xml(f"<ErrorResponse>{_error(xml, text, 'Sender')}</ErrorResponse>")
    if service in (None, "s3"):
        return _in_xml(_error(s3, text))
    if service in ("cloudfront", "route53", "sts", "iam"):
        return _in_xml(f"<ErrorResponse>{_error(xml, text, 'Sender')}</ErrorResponse>")
    return _in_json(in_json, text)


def _in_json(code: str, text: str) -> Refusal:
    body = json.dumps({"__type": code, "message": text}).encode()
    return Refusal({"Content-Type": "application/json", "x-amzn-ErrorType": code}, body)


def _in_xml(xml: str) -> Refusal:
    return Refusal({"Content-Type": "text/xml"}, xml.encode())


def _error(code: str, text: str, kind: str | None = None) -> str:
    fault = f"<Type>{kind}</Type>" if kind else ""
    return f"<Error>{fault}<Code>{code}</Code><Message>{escape(text)}</Message></Error>"
