"""Rules about the records of a batch: split, sent, answered, put together and joined."""

import re

from infra.parameters.batch.job import BYTES_PER_MB, FILTERED, OF_LINES, BatchJob, parse_media_type
from infra.parameters.batch.settings import MOST_PAYLOAD_MB, BatchSettings
from infra.parameters.finding import Severity
from infra.preflight.batch.jobs import BatchJobRule, BatchTableRule
from infra.preflight.model.known_requests import find_reader
from infra.preflight.rule import Findings
from model_packaging.requests.known_requests import TYPES_READ, Reader

JSON = "application/json"
_BINARY = [f"application/{kind}" for kind in ("x-npy", "x-npz", "x-protobuf", "octet-stream")]


def _is_text(content_type: str) -> bool:
    kind = parse_media_type(content_type)
    return kind in (*OF_LINES, JSON) or kind.startswith("text/")


def _is_binary(content_type: str) -> bool:
    kind = parse_media_type(content_type)
    return kind in _BINARY or kind.startswith(("image/", "audio/", "video/"))


class TransformPayload(BatchJobRule):
    """SageMaker rejects a job whose concurrent requests may exceed 100 MB in total.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html
    (MaxPayloadInMB, 2026-11-28)
    """

    key = "batch.{job.name}.payload_mb"
    problem = "payload_mb {job.payload_mb.value} x max_concurrent {job.max_concurrent.value} is {product} MB"
    allowed = f"at most {MOST_PAYLOAD_MB}"
    remedy = "lower one of them, or remove it: Servable then chooses it"
    reads = ("batch.{job.name}.max_concurrent",)

    def find_problems(self, job: BatchJob) -> Findings:
        product = job.payload_mb.value * job.max_concurrent.value
        if product > MOST_PAYLOAD_MB:
            yield self.build_finding(given=job.payload_mb.value, product=product)


class TransformRecordSize(BatchJobRule, severity=Severity.WARNING):
    """A record that is larger than the payload fails its object, and with it the run.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html
    (MaxPayloadInMB, 2026-11-28); the size of a record is that of [traffic]'s largest request by its rows
    """

    key = "batch.{job.name}.payload_mb"
    problem = (
        "payload_mb {job.payload_mb.value}: a record of [traffic] has {job.record_bytes:,} bytes"
    )
    remedy = "raise it, and lower max_concurrent if their product exceeds 100 MB"
    reads = ("traffic.request_bytes", "traffic.rows_per_request")

    def find_problems(self, job: BatchJob) -> Findings:
        payload = job.payload_mb.value
        if job.split.value != "none" and (job.record_bytes or 0) > payload * BYTES_PER_MB:
            yield self.build_finding(given=payload)


class TransformContentType(BatchJobRule):
    """A content type that neither NGINX nor Servable's handler reads is answered with 415.

    Source: tensorflowServing.js of https://github.com/aws/deep-learning-containers (2026-11-22);
    servable_tensors/codecs.py
    """

    key = "batch.{job.name}.content_type"
    problem = "{read_by} rejects {job.batch.content_type} with 415"
    remedy = "choose one of those, or add code that reads it (models.{job.batch.model}.code)"
    reads = ("models.{job.batch.model}",)

    def find_problems(self, job: BatchJob) -> Findings:
        read_by, _ = find_reader(self.candidate, job.placement, job.batch.model)
        types = TYPES_READ.get(read_by)
        if types is not None and parse_media_type(job.batch.content_type) not in types:
            yield self.build_finding(read_by=read_by.value, allowed=", ".join(types))


class TransformSplit(BatchJobRule):
    """Binary arrays and images have no lines, and text has no TFRecord or RecordIO frames.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TransformInput.html
    (SplitType, 2026-11-28)
    """

    key = "batch.{job.name}.split"
    problem = "split {job.split.value}: {job.batch.content_type} has no such records"
    remedy = "remove it: Servable then chooses it"
    reads = ("batch.{job.name}.content_type",)

    def find_problems(self, job: BatchJob) -> Findings:
        split, content_type = job.split.value, job.batch.content_type
        if split == "line" and _is_binary(content_type):
            yield self.build_finding(allowed="none, tfrecord, recordio")
        elif split in ("tfrecord", "recordio") and _is_text(content_type):
            yield self.build_finding(allowed="none, line")


class TransformStrategy(BatchJobRule):
    """The strategy sets the number of records in a request, and an object that isn't split has no records.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html
    (BatchStrategy, 2026-11-28)
    """

    key = "batch.{job.name}.strategy"
    problem = "strategy {job.batch.strategy}: the objects are not split into records"
    remedy = "remove it, or set split"
    reads = ("batch.{job.name}.split",)

    def find_problems(self, job: BatchJob) -> Findings:
        if job.batch.strategy is not None and job.split.value == "none":
            yield self.build_finding()


class TransformLines(BatchJobRule, severity=Severity.WARNING, acknowledgeable=True):
    """Without a handler the container has one answer for all lines of a request, written over several lines.

    Source: tensorflowServing.js of https://github.com/aws/deep-learning-containers (2026-11-22);
    https://github.com/aws/sagemaker-tensorflow-serving-container/issues/154
    """

    key = "batch.{job.name}.model"
    problem = (
        "models.{job.batch.model} has no handler: the response is one JSON document over several "
        "lines, {many}"
    )
    remedy = 'set models.{job.batch.model}.handler = "servable"'
    reads = ("models.{job.batch.model}", "batch.{job.name}.strategy")

    def find_problems(self, job: BatchJob) -> Findings:
        read_by, _ = find_reader(self.candidate, job.placement, job.batch.model)
        if read_by is not Reader.NGINX or (job.split.value, job.assemble.value) != ("line", "line"):
            return
        if job.strategy.value == "multi_record":
            yield self.build_finding(many="for all records in it", severity=Severity.ERROR)
        else:
            yield self.build_finding(many="for each record")


class TransformJoin(BatchJobRule):
    """Filters and joins need CSV, JSON or JSON lines, one answer for each record, and one format for both.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform-data-processing.html (2023-06)
    """

    reads = ("batch.{job.name}.content_type", "batch.{job.name}.accept")

    def find_problems(self, job: BatchJob) -> Findings:
        batch, sent, accept = job.batch, parse_media_type(job.batch.content_type), job.accept.value
        keys = ("join", "input_filter", "output_filter")
        used = next((key for key in keys if getattr(batch, key)), None)
        if used is None:
            return
        read_by, _ = find_reader(self.candidate, job.placement, batch.model)
        lines = (job.split.value, job.assemble.value)
        if sent not in FILTERED:
            problem = f"{used}: SageMaker cannot parse {batch.content_type}"
            remedy = f"remove it, or set content_type to one of {', '.join(FILTERED)}"
        elif parse_media_type(accept) != sent:
            problem = f"{used}: the responses are {accept}, but the records are "
            problem += batch.content_type
            remedy = "set accept to content_type; without a handler responses are always JSON"
        elif sent != JSON and lines != ("line", "line"):
            problem = f"{used} needs lines, but split is {lines[0]} and assemble is {lines[1]}"
            remedy = "set both to line"
        elif sent != JSON and read_by is Reader.NGINX and used != "input_filter":
            problem = f"{used}: without a handler a response is JSON over several lines"
            remedy = f'set models.{batch.model}.handler = "servable"'
        elif job.strategy.value == "multi_record" and sent == JSON:
            problem = f"{used}: many records get one response as {JSON}"
            remedy = "set content_type to application/jsonlines, or strategy to single_record"
        else:
            return
        key = f"batch.{job.name}.{used}"
        yield self.build_finding(key, problem, given=None, remedy=remedy)


# $, .name, *, ['a','b'], [0,2] and [1:3], one after the other.
_PART = r"('[^']*'|\*|-?\d+|-?\d*:-?\d*)"
_JSON_PATH = re.compile(rf"\$(\.[\w-]+|\.?\*|\[{_PART}(\s*,\s*{_PART})*\])*")
_NAMES = re.compile(r"\.[\w-]|'")


class TransformFilter(BatchTableRule):
    """SageMaker supports part of JSONPath; a filter must select something from each record.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform-data-processing.html (supported
    JSONPath operators, 2023-06); a record of CSV is an array, and SageMakerOutput is what is joined:
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DataProcessing.html (2026-11-28)
    """

    remedy = "correct it"
    reads = ("batch.{name}.content_type", "batch.{name}.join")

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        for key in ("input_filter", "output_filter"):
            path = getattr(batch, key)
            if path is None:
                continue
            if _JSON_PATH.fullmatch(path) is None:
                problem = f"{path} is not a JSONPath that SageMaker supports"
                allowed = "$, .name, *, ['a','b'], [0,2] and [1:3]"
            elif parse_media_type(batch.content_type) == "text/csv" and _NAMES.search(path):
                problem = f"{path}: CSV records have no field names"
                allowed = "columns by their numbers from 0, such as $[1:]"
            elif key == "output_filter" and "SageMakerOutput" in path and not batch.join:
                problem = f"{path}: without join, records have no SageMakerOutput"
                allowed = "join = true"
            else:
                continue
            yield self.build_finding(f"batch.{name}.{key}", problem, allowed=allowed)


class TransformAssemble(BatchJobRule):
    """Answers in one result must be separable: lines end with a newline, but arrays have no separator.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TransformOutput.html
    (AssembleWith, 2026-11-28)
    """

    def find_problems(self, job: BatchJob) -> Findings:
        accept = job.accept.value
        if job.split.value == "none":
            return
        if _is_binary(accept):
            key, remedy = f"batch.{job.name}.accept", 'set accept to "application/jsonlines"'
            problem = f"several responses of type {accept} in one result cannot be separated"
            yield self.build_finding(key, problem, given=accept, remedy=remedy)
        elif job.assemble.value == "none" and _is_text(accept):
            key, remedy = f"batch.{job.name}.assemble", "remove it: Servable then chooses it"
            problem = (
                "assemble none: the last line of a response and the first of the next become one"
            )
            yield self.build_finding(key, problem, remedy=remedy)
