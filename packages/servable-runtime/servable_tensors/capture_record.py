"""The parts of a record of SageMaker's data capture that its writers and its readers share.

Nothing here needs a package outside of Python: commands without any extra read recordings.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (2026-11-22)
"""

import base64
import datetime

# The text encodings. SageMaker takes them for the types that CaptureContentTypeHeader names, BASE64 else:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CaptureContentTypeHeader.html (2026-11-22)
_TEXT = {"application/json": "JSON", "application/jsonlines": "JSON", "text/csv": "CSV"}


def media_type(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def captured_part(mode: str, content_type: str, body: bytes) -> dict[str, str]:
    """Return endpointInput or endpointOutput. `mode`: INPUT or OUTPUT. What is no UTF-8 becomes BASE64."""
    encoding = _TEXT.get(media_type(content_type), "BASE64")
    try:
        data = body.decode() if encoding != "BASE64" else ""
    except UnicodeDecodeError:
        encoding = "BASE64"
    if encoding == "BASE64":
        data = base64.b64encode(body).decode()
    return {"observedContentType": content_type, "mode": mode, "data": data, "encoding": encoding}


def utc(seconds: float) -> str:
    """Return an inferenceTime of seconds since 1970, with microseconds."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
