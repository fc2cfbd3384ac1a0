"""Errors of the emulated services, responses to callers who are denied access, and the CBOR protocol.

Upstream (moto 5.2.5): CBOR is not known, and its requests are answered in XML.
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


class InsufficientCapabilitiesError(ServiceException):
    code = "InsufficientCapabilitiesException"


class InvalidChangeSetStatusError(ServiceException):
    code = "InvalidChangeSetStatus"


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
    body = bytearray(b"\xa2" if message else b"\xa1")  # a map of two, or of one
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
        message = f"{environ['PATH_INFO']} is no operation here in CBOR: CloudWatch's are"
        start_response("501 Not Implemented", [*_CBOR_HEADERS.items()])
        return [_write_cbor_error("NotImplemented", message)]
    try:
        content = environ["wsgi.input"].read()
        stream = _READER.get_peekable_stream_from_bytes(content)
        given = _READER.parse_data_item(stream) if content else {}
    except (parsers.ResponseParserError, MemoryError, ValueError) as wrong:
        start_response("400 Bad Request", [*_CBOR_HEADERS.items()])
        return [_write_cbor_error("SerializationException", f"the body is not CBOR: {wrong}")]
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
        if (
            operation == "DescribeAlarms"
        ):  # one member more, of a kind that no model has: a list of none
            written[0] += 1
            _WRITER._serialize_type_string(written, "LogAlarms", None, None)
            written += b"\x80"
        sent = bytes(written) or b"\xa0"  # a map of none
    kept = [pair for pair in headers if pair[0].lower() not in ("content-type", "content-length")]
    start_response(status, [*kept, *_CBOR_HEADERS.items(), ("Content-Length", str(len(sent)))])
    return [sent]


class Reason(enum.Enum):
    """Why a request is rejected, with AWS's codes: S3's, and those of XML and JSON services.

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
class Rejection:
    """A response that rejects a request. Always 403: no AWS client retries it by itself."""

    headers: Mapping[str, str]
    body: bytes
    status: str = "403 Forbidden"


def build_rejection(request: ReceivedRequest, error: AccessError) -> Rejection:
    """Return `error` in the format of the service that `request` names."""
    s3, xml, in_json = error.reason.value
    text = str(error)
    service = request.claimed_service
    if is_cbor(request):
        return Rejection(_CBOR_HEADERS, _write_cbor_error(in_json, text))
    if request.find_header("x-amz-target") or "json" in (request.find_header("content-type") or ""):
        return _build_json_rejection(in_json, text)
    if (request.find_header("content-type") or "").startswith("application/x-www-form-urlencoded"):
        if service == "ec2":
            return _build_xml_rejection(
                f"<Response><Errors>{_format_error('AuthFailure', text)}</Errors></Response>"
            )
        return _build_xml_rejection(
            f"<ErrorResponse>{_format_error(xml, text, 'Sender')}</ErrorResponse>"
        )
    if service in (None, "s3"):
        return _build_xml_rejection(_format_error(s3, text))
    if service in ("cloudfront", "route53", "sts", "iam"):
        return _build_xml_rejection(
            f"<ErrorResponse>{_format_error(xml, text, 'Sender')}</ErrorResponse>"
        )
    return _build_json_rejection(in_json, text)


def _build_json_rejection(code: str, text: str) -> Rejection:
    body = json.dumps({"__type": code, "message": text}).encode()
    return Rejection({"Content-Type": "application/json", "x-amzn-ErrorType": code}, body)


def _build_xml_rejection(xml: str) -> Rejection:
    return Rejection({"Content-Type": "text/xml"}, xml.encode())


def _format_error(code: str, text: str, kind: str | None = None) -> str:
    fault = f"<Type>{kind}</Type>" if kind else ""
    return f"<Error>{fault}<Code>{code}</Code><Message>{escape(text)}</Message></Error>"
