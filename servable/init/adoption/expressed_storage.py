"""Convert what is stored in S3: captured samples, an asynchronous queue, and core dumps."""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from infra.parameters.table import KmsKeyArn
from servable.init.adoption.live_fields import LiveFields, NotCarried
from servable.init.adoption.live_snapshot import Described, is_capturing

_OWN_BUCKET = "new objects go to a bucket of the retained stack ENV/data; existing objects stay"


def convert_storage(
    live: Described, config: LiveFields, listed: list[NotCarried]
) -> dict[str, dict[str, Any]]:
    """Return [capture] and [asynchronous] of a configuration; `config` has its fields."""
    tables = {}
    capture = config.take("DataCaptureConfig")
    if is_capturing(live):
        known = {"EnableCapture": True, "CaptureContentTypeHeader": {
            "CsvContentTypes": ["text/csv"],
            "JsonContentTypes": ["application/json", "application/jsonlines"]}}  # fmt: skip
        fields = LiveFields("data capture", capture, listed, known=known)
        tables["capture"] = _convert_capture(fields, capture)
    elif capture is not None:
        reason = "EnableCapture is false, so nothing is captured, as without [capture]"
        uri = capture.get("DestinationS3Uri")
        listed.append(NotCarried("DataCaptureConfig", uri, reason, "none"))
    if (queue := config.take("AsyncInferenceConfig")) is not None:
        fields = LiveFields("asynchronous inference", queue, listed)
        most = fields.take("ClientConfig", "MaxConcurrentInvocationsPerInstance")
        table = {} if most is None else {"max_concurrent_invocations_per_instance": most}
        _take_kms_key(table, fields, "OutputConfig")
        reason = (
            f"{_OWN_BUCKET}; the stack's topics notify: asynchronous.notify_success, notify_error"
        )
        fields.note_rest(OutputConfig=reason)
        tables["asynchronous"] = table
    return tables


def convert_core_dumps(dumps: Described, fields: LiveFields) -> dict[str, Any]:
    uri = str(dumps["DestinationS3Uri"])
    table = {"uri": f"{uri.removesuffix('/')}/"}
    if not uri.endswith("/"):
        reason = "the file needs a prefix that ends with a slash"
        fields.note("CoreDumpConfig.DestinationS3Uri", uri, reason)
    if key := dumps.get("KmsKeyId"):
        table["kms_key"] = key
    return table


def _convert_capture(fields: LiveFields, live: Described) -> dict[str, Any]:
    modes = [option["CaptureMode"] for option in fields.take("CaptureOptions") or []]
    both = "InputAndOutput" in modes
    table: dict[str, Any] = {
        "sample_percent": fields.take("InitialSamplingPercentage"),
        "requests": both or "Input" in modes,
        "answers": both or "Output" in modes,
    }
    if not table["sample_percent"]:
        table["sample_percent"] = 1
        reason = "capture.sample_percent must be at least 1; to capture nothing, remove [capture]"
        fields.note("InitialSamplingPercentage", 0, reason)
    _take_kms_key(table, fields)
    if live.get("CaptureContentTypeHeader") is None:
        reason = "not set, so bodies are stored in base64; the file stores CSV and JSON as text"
        fields.note("CaptureContentTypeHeader", None, reason)
    fields.note_rest(
        DestinationS3Uri=_OWN_BUCKET,
        CaptureContentTypeHeader="text/csv and JSON are stored as text",
    )
    return table


def _take_kms_key(table: dict[str, Any], fields: LiveFields, *outer: str) -> None:
    key = fields.take(*outer, "KmsKeyId")
    if is_key_arn(key):
        table["kms_key"] = key
    else:
        reason = "kms_key needs a key ARN; without one, the stack ENV/data creates a key"
        fields.note("KmsKeyId", key or "not set", reason)


def is_key_arn(key: str | None) -> bool:
    try:
        return bool(TypeAdapter(KmsKeyArn).validate_python(key))
    except ValidationError:
        return False
