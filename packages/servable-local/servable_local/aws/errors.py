"""Errors of the emulated services, responses to callers who are denied access, and the CBOR protocol.

Upstream (moto 5.2.5): requests in CBOR get responses in XML.
Source: https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html; botocore's CBOR and its models.
"""

import enum
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape

from botocore import parsers, serialize
from moto.core.exceptions import ServiceException

from servable_local.aws.loopback import load_service_model
from servable_local.aws.signed_request import ReceivedRequest


class ValidationError(ServiceException):
    """The request can't be carried out. The CDK CLI shows the message."""

    code = "ValidationError"


class SageMakerError(ServiceException):
    """SageMaker's code for every rejected request; its runtime uses `ValidationError`'s."""

    code = "ValidationException"


class AlreadyExistsError(ServiceException):
    code = "AlreadyExistsException"


class ChangeSetNotFoundError(ServiceException):
    code = "ChangeSetNotFound"


class InvalidParameterCombinationError(ServiceException):
    code = "InvalidParameterCombination"


class InvalidParameterValueError(ServiceException):
    code = "InvalidParameterValue"


class ResourceNotFoundError(ServiceException):
    code = "ResourceNotFound"


_PROTOCOL = "rpc-v2-cbor"
_PATH = re.compile(r"/service/(\w+)/operation/(\w+)")
_CBOR_HEADERS = {"Content-Type": "application/cbor", "smithy-protocol": _PROTOCOL}
_READER: Any = parsers.RpcV2CBORParser()
_WRITER: Any = serialize.RpcV2CBORSerializer()
_Environ = dict[str, Any]
_Application = Callable[[_Environ, Callable[..., Any]], Iterable[bytes]]


def is_cbor(request: ReceivedRequest) -> bool:
    """Return whether a request is in CBOR."""
    return request.find_header("smithy-protocol") == _PROTOCOL


def _write_cbor_error(code: str, message: str | None) -> bytes:
    """Return the body of an error response in CBOR."""
    body = bytearray(b"\xa2" if message else b"\xa1")  # a map of two entries, or of one
    for text in ("__type", code, *(("message", message) if message else ())):
        _WRITER._serialize_type_string(body, text, None, None)
    return bytes(body)


def respond_in_cbor(
    environ: _Environ, start_response: Callable[..., Any], application: _Application
) -> Iterable[bytes]:
    """Call `application` with the request in JSON, and return its response in CBOR."""
    model = load_service_model("cloudwatch")
    named = _PATH.fullmatch(environ["PATH_INFO"])
    target, operation = named.groups() if named else ("", "")
    if target != model.metadata["targetPrefix"] or operation not in model.operation_names:
        message = f"{environ['PATH_INFO']}: only CloudWatch's operations are supported in CBOR"
        start_response("501 Not Implemented", [*_CBOR_HEADERS.items()])
        return [_write_cbor_error("NotImplemented", message)]
    try:
        content = environ["wsgi.input"].read()
        stream = _READER.get_peekable_stream_from_bytes(content)
        given = _READER.parse_data_item(stream) if content else {}
    except (parsers.ResponseParserError, MemoryError, ValueError) as wrong:
        start_response("400 Bad Request", [*_CBOR_HEADERS.items()])
        return [_write_cbor_error("SerializationException", f"the body isn't CBOR: {wrong}")]
    body = json.dumps(given, default=datetime.timestamp).encode()
    asked = {
        "PATH_INFO": "/",
        "RAW_URI": "/",
        "REQUEST_URI": "/",
        "CONTENT_TYPE": "application/x-amz-json-1.0",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_X_AMZ_TARGET": f"{target}.{operation}",
        "wsgi.input": io.BytesIO(body),
    }
    held: list[Any] = []
    parts = application(environ | asked, lambda *begun: held.append(begun))
    status, headers = held[-1][:2]
    answer: dict[str, Any] = {
        "status_code": int(status[:3]),
        "headers": {},
        "body": b"".join(parts),
    }
    shape = model.operation_model(operation).output_shape
    parsed = parsers.create_parser("json").parse(answer, shape)
    if "Error" in parsed:
        said = json.loads(answer["body"])
        sent = _write_cbor_error(said["__type"], said.get("message"))
    else:
        written = bytearray()
        parsed.pop("ResponseMetadata", None)
        if shape:
            _WRITER._serialize_data_item(written, parsed, shape)
        if operation == "DescribeAlarms":  # AWS adds an empty list that isn't in the model
            written[0] += 1
            _WRITER._serialize_type_string(written, "LogAlarms", None, None)
            written += b"\x80"
        sent = bytes(written) or b"\xa0"  # an empty map
    kept = [pair for pair in headers if pair[0].lower() not in ("content-type", "content-length")]
    start_response(status, [*kept, *_CBOR_HEADERS.items(), ("Content-Length", str(len(sent)))])
    return [sent]


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
_FORMATS = {
    **dict.fromkeys((None, "s3", "s3-object-lambda"), "s3"),
    **dict.fromkeys(("cloudfront", "iam", "route53", "sts"), "xml"),
}


def build_rejection(request: ReceivedRequest, error: AccessError) -> ErrorResponse:
    """Return the response to a request that `error` rejects, whose status is always 403.

    No AWS client retries a 403 by itself.
    """
    s3, xml, in_json = error.reason.value
    if is_cbor(request):
        return ErrorResponse(_CBOR_HEADERS, _write_cbor_error(in_json, str(error)))
    codes = {"s3": s3, "xml": xml, "json": in_json, "ec2": "AuthFailure"}
    return _build_error(request, request.find_header("content-type") or "", codes, str(error))


def build_failure(request: ReceivedRequest, content_type: str, text: str) -> ErrorResponse:
    """Return the response to a request that the local AWS doesn't support, or fails on."""
    codes = dict.fromkeys((*_FRAMES, "json"), "NotImplemented")
    return _build_error(request, content_type, codes, text)


def _build_error(
    request: ReceivedRequest, content_type: str, codes: Mapping[str, str], text: str
) -> ErrorResponse:
    """Return an error in the format of the request's service. `codes`: the code by format."""
    service = request.claimed_service
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
