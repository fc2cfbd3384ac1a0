"""Clients that speak CBOR to CloudWatch, as newer SDKs do: asked and answered as those that speak JSON.

Upstream (moto 5.2.5): the protocol is not known, and its requests are answered in XML.
Source: https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html; botocore's CBOR and its models.
"""

import io
import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from botocore import parsers, serialize

from servable_local.aws.loopback import service_model
from servable_local.aws.signed_request import ReceivedRequest

_PROTOCOL = "rpc-v2-cbor"
_PATH = re.compile(r"/service/(\w+)/operation/(\w+)")
HEADERS = {"Content-Type": "application/cbor", "smithy-protocol": _PROTOCOL}
_READER: Any = parsers.RpcV2CBORParser()
_WRITER: Any = serialize.RpcV2CBORSerializer()
_Environ = dict[str, Any]
_Application = Callable[[_Environ, Callable[..., Any]], Iterable[bytes]]


def spoken(request: ReceivedRequest) -> bool:
    return request.header("smithy-protocol") == _PROTOCOL


def error(code: str, message: str | None) -> bytes:
    """The body of a refusal."""
    body = bytearray(b"\xa2" if message else b"\xa1")  # a map of two, or of one
    for text in ("__type", code, *(("message", message) if message else ())):
        _WRITER._serialize_type_string(body, text, None, None)
    return bytes(body)


def answered(
    environ: _Environ, start_response: Callable[..., Any], application: _Application
) -> Iterable[bytes]:
    """Ask `application` in JSON, and answer in CBOR."""
    model = service_model("cloudwatch")
    named = _PATH.fullmatch(environ["PATH_INFO"])
    target, operation = named.groups() if named else ("", "")
    if target != model.metadata["targetPrefix"] or operation not in model.operation_names:
        message = f"{environ['PATH_INFO']} is no operation here in CBOR: CloudWatch's are"
        start_response("501 Not Implemented", [*HEADERS.items()])
        return [error("NotImplemented", message)]
    try:
        content = environ["wsgi.input"].read()
        stream = _READER.get_peekable_stream_from_bytes(content)
        given = _READER.parse_data_item(stream) if content else {}
    except (parsers.ResponseParserError, MemoryError, ValueError) as wrong:
        start_response("400 Bad Request", [*HEADERS.items()])
        return [error("SerializationException", f"the body is not CBOR: {wrong}")]
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
        sent = error(said["__type"], said.get("message"))
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
    start_response(status, [*kept, *HEADERS.items(), ("Content-Length", str(len(sent)))])
    return [sent]
