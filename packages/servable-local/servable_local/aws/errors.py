"""Errors of the emulated services, and responses to requests that are rejected or that fail."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from moto.core.exceptions import ServiceException

from servable_local.aws.signed_request import ReceivedRequest


class AwsError(ServiceException):
    """An error with a code and a message of AWS: `AwsError("ResourceInUse", "…")`."""


class ValidationError(ServiceException):
    """The request can't be carried out. The CDK CLI shows the message."""

    code = "ValidationError"


class SageMakerError(ServiceException):
    """The code of rejections by SageMaker, except its runtime, and by Application Auto Scaling."""

    code = "ValidationException"


class AlreadyExistsError(ServiceException):
    code = "AlreadyExistsException"


class ChangeSetNotFoundError(ServiceException):
    code = "ChangeSetNotFound"


class InvalidParameterValueError(ServiceException):
    code = "InvalidParameterValue"


class Reason(enum.Enum):
    """Why a request is rejected, with the codes of S3, of XML services, and of JSON services.

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
    """The request is rejected. `str()` is a whole sentence: what was given, what to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class ErrorResponse:
    """A response with an error, in the format of the service that a request names."""

    headers: Mapping[str, str]
    body: bytes


# Format of an error -> its frame.
_FRAMES = {
    "s3": "<Error>{}</Error>",
    "xml": "<ErrorResponse><Error><Type>Sender</Type>{}</Error></ErrorResponse>",
    "ec2": "<Response><Errors><Error>{}</Error></Errors></Response>",
}
# The services whose requests don't show in their content type that errors are XML.
_FORMATS: dict[str | None, str] = {
    None: "s3",
    **dict.fromkeys(("s3", "s3-object-lambda"), "s3"),
    **dict.fromkeys(("cloudfront", "iam", "route53", "sts"), "xml"),
}


def build_rejection(request: ReceivedRequest, error: AccessError) -> ErrorResponse:
    """Return the response to a request that `error` rejects, whose status is always 403.

    No AWS client retries a 403 by itself.
    """
    s3, xml, in_json = error.reason.value
    codes = {"s3": s3, "xml": xml, "json": in_json, "ec2": "AuthFailure"}
    return _build_error(request, codes, str(error))


def build_failure(request: ReceivedRequest, text: str) -> ErrorResponse:
    """Return the response to a request that the local AWS doesn't support, or fails on."""
    return _build_error(request, dict.fromkeys((*_FRAMES, "json"), "NotImplemented"), text)


def _build_error(request: ReceivedRequest, codes: Mapping[str, str], text: str) -> ErrorResponse:
    """Return an error in the format of the request's service. `codes`: the code by format."""
    service, content_type = request.claimed_service, request.find_header("content-type") or ""
    if "json" in content_type or request.find_header("x-amz-target"):
        kind = "json"
    elif content_type.startswith("application/x-www-form-urlencoded"):
        kind = "ec2" if service == "ec2" else "xml"
    else:
        kind = _FORMATS.get(service, "json")
    code = codes[kind]
    if kind == "json":
        body = json.dumps({"__type": code, "message": text})
        headers = {"Content-Type": "application/json", "x-amzn-ErrorType": code}
        return ErrorResponse(headers, body.encode())
    xml = f"<Code>{code}</Code><Message>{escape(text)}</Message>"
    return ErrorResponse({"Content-Type": "text/xml"}, _FRAMES[kind].format(xml).encode())
