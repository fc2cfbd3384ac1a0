"""A batch on its instance type: the omitted settings, and the request that starts a job."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from infra.catalog import images
from infra.parameters.batch.settings import DEFAULT_PAYLOAD_MB, MOST_PAYLOAD_MB, BatchSettings
from infra.parameters.environment import Environment
from infra.parameters.model import ModelTable
from infra.parameters.placement import Placement, find_placement
from infra.parameters.rollout import CONTENT_TYPES
from infra.policy.container import Batching, ContainerSettings
from infra.policy.derived_settings import Choice, DerivedSettings, choose_setting, merge_settings
from infra.policy.hosting import Hosting

CSV, JSON_LINES = CONTENT_TYPES[".csv"], CONTENT_TYPES[".jsonl"]
JSON, OF_LINES = CONTENT_TYPES[".json"], (CSV, JSON_LINES, "application/jsons")
FILTERED = (CSV, JSON, JSON_LINES)  # with filters and joins, by AWS's page of TransformJoin
# The container's timeouts outlast the job's, so that the job's ends the wait and not a killed worker.
MARGIN_SECONDS = 30
# Folder under the output of what `servable batch --limit` reads and writes.
TRIALS = "servable-trial"
BYTES_PER_MB = 10**6
GPU_AMI = "al2-ami-sagemaker-batch-gpu-535"


def parse_media_type(content_type: str) -> str:
    """Return a content type without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def has_line_responses(model: ModelTable) -> bool | None:
    """Return whether the response to a request of many lines has as many lines.

    Returns None if the user's own code decides. Without a handler, the container returns one
    object for all lines. Servable's handler returns lines, but hooks may change that.
    Source: tensorflowServing.js of https://github.com/aws/deep-learning-containers (2026-11-22)
    """
    unknown = model.code is not None or (model.artifact is not None and model.handler is None)
    return None if unknown else model.handler == "servable"


@dataclass(frozen=True, kw_only=True)
class BatchJob:
    """A batch whose instance type and model are known."""

    name: str
    batch: BatchSettings
    placement: Placement
    """The model on the instance type, with the settings that a variant would have."""
    record_bytes: int | None
    """Size of a record by [traffic], in bytes: that of the largest request, divided by its rows."""
    measured_concurrency: tuple[str, int] | None
    """Variant of the same model and instance type, and the measured requests at a time of one instance."""
    volume_kms_key: str | None
    tags: Mapping[str, str]

    @property
    def accept(self) -> Choice[str]:
        chosen = self.batch.content_type
        reason = "same as content_type: filters and joins need one format for both"
        if self.placement.served.has_code is False:
            chosen, reason = JSON, "without a handler every response is JSON"
        return choose_setting("accept", self.batch.accept, chosen, reason)

    @property
    def split(self) -> Choice[str]:
        chosen, reason = "none", "an object is one request"
        if parse_media_type(self.batch.content_type) in OF_LINES:
            chosen, reason = "line", "a line is a record"
        return choose_setting("split", self.batch.split, chosen, reason)

    @property
    def strategy(self) -> Choice[str | None]:
        """Return multi_record or single_record; the value is None if objects aren't split."""
        chosen: str | None = "single_record"
        lines, types = (
            has_line_responses(self.placement.model),
            (self.batch.content_type, self.accept.value),
        )
        if self.split.value == "none":
            chosen, reason = None, "an object is one request"
        elif lines and all(parse_media_type(each) in OF_LINES for each in types):
            chosen, reason = "multi_record", "the handler returns one line for each line"
        elif lines is None:
            reason = (
                "your code may return one result for many lines; if not, multi_record is faster"
            )
        else:
            without = "" if lines else " without a handler"
            reason = f"many lines get one response as {self.accept.value}{without}"
        return choose_setting("strategy", self.batch.strategy, chosen, reason)

    @property
    def assemble(self) -> Choice[str]:
        chosen, reason = "none", "one response is the whole result"
        if self.split.value == "line":
            chosen, reason = "line", "a record of the input is a line"
        return choose_setting("assemble", self.batch.assemble, chosen, reason)

    @property
    def max_concurrent(self) -> Choice[int]:
        most = MOST_PAYLOAD_MB // (self.batch.payload_mb or 1)
        number = self.placement.instance.vcpus
        reason = f"one for each of {number} vCPUs"
        if self.measured_concurrency is not None:
            variant, number = self.measured_concurrency
            reason = f"measured on variants.{variant}"
        elif self.placement.workers:
            number, reason = self.placement.workers, "one for each Gunicorn worker"
        if number > most:
            number, reason = most, f"{reason}; more would exceed {MOST_PAYLOAD_MB} MB in flight"
        return choose_setting("max_concurrent", self.batch.max_concurrent, number, reason)

    @property
    def payload_mb(self) -> Choice[int]:
        most = max(1, MOST_PAYLOAD_MB // self.max_concurrent.value)
        chosen, reason = DEFAULT_PAYLOAD_MB, "SageMaker's own default"
        if self.strategy.value == "multi_record":
            chosen = 1
            reason = "more saves hardly any time, and a failed request is resent whole"
        record_mb = math.ceil((self.record_bytes or 0) / BYTES_PER_MB)
        if self.split.value != "none" and record_mb > chosen:
            chosen, reason = record_mb, f"a record of [traffic] has {self.record_bytes:,} bytes"
        if chosen > most:
            chosen, reason = most, f"{MOST_PAYLOAD_MB} MB divided by max_concurrent"
        return choose_setting("payload_mb", self.batch.payload_mb, chosen, reason)

    @property
    def ami(self) -> str | None:
        """Return the AMI of a GPU instance with a CUDA 12 image, or None.

        Without an AMI, the instance's driver is 470, on which CUDA 12 doesn't start.
        Source: API_TransformResources.html (2026-11-28), which lists two;
        infra/catalog/inference_amis.json
        """
        cuda = images.parse_version(images.infer_cuda(self.placement.tensorflow))
        return GPU_AMI if self.placement.instance.gpus and cuda >= (12,) else None

    @property
    def choices(self) -> tuple[Choice[Any], ...]:
        """Return the settings of the job that the file may omit, each with its reason."""
        return (
            self.accept, self.split, self.strategy, self.assemble, self.max_concurrent, self.payload_mb,
        )  # fmt: skip

    @cached_property
    def derived_settings(self) -> DerivedSettings:
        """Return the container's settings: those of a variant, adapted to a batch job."""
        timeout = self.batch.timeout_seconds
        seconds = timeout + MARGIN_SECONDS
        outlasts = f"longer than the job's {timeout} s, so that the job's timeout applies"
        choices = self.placement.derived.choices
        chosen: dict[str, tuple[object, str]] = {c.name: (c.value, c.reason) for c in choices}
        waits, _ = chosen["wait_time_seconds"]
        if not isinstance(waits, int) or waits < seconds:
            chosen["wait_time_seconds"] = seconds, f"it also limits one request: {outlasts}"
        chosen["nginx_read_timeout_seconds"] = seconds, outlasts
        if self.placement.served.has_code is not False:
            chosen["gunicorn_timeout_seconds"] = seconds, outlasts
        if self.batch.container.batching is None:
            chosen["batching"] = self._choose_batching()
        return merge_settings(self.batch.container, chosen)

    def _choose_batching(self) -> tuple[Batching | None, str]:
        if self.strategy.value == "multi_record":
            return (
                None,
                "off: a request is a batch already, and one with more rows would be rejected",
            )
        if self.strategy.value is None or parse_media_type(self.batch.content_type) not in OF_LINES:
            return None, "off: a request may have more rows than a batch, and would be rejected"
        rows = self.max_concurrent.value
        if rows == 1:
            return None, "off: there is one request at a time"
        # With SAGEMAKER_BATCH, which SageMaker sets, the image's queue takes 100,000,000 batches:
        # tfs_utils.py of https://github.com/aws/deep-learning-containers (2026-08)
        return Batching(max_batch_size=rows), f"combines the {rows} records that are sent at a time"

    @property
    def settings(self) -> ContainerSettings:
        return self.derived_settings.settings

    @property
    def deployed_placement(self) -> Placement:
        """Return the model on its instance type, with the container's settings for the job."""
        return replace(self.placement, derived=self.derived_settings)

    def build_hosting(self, region: str) -> Hosting:
        """Return the image and variables. Raise KeyError for what preflight rejects."""
        return self.deployed_placement.build_hosting(region)

    @property
    def output_prefix(self) -> str:
        """Return the prefix of the names of the batch's stack outputs, which Model and StateMachine follow.

        The batch nightly-scores has BatchNightlyScores.
        """
        return "Batch" + "".join(word[:1].upper() + word[1:] for word in self.name.split("-"))

    def build_request(
        self,
        *,
        job_name: str,
        model_name: str,
        input_uri: str | None = None,
        output_uri: str | None = None,
    ) -> dict[str, Any]:
        """Build the CreateTransformJob request, as botocore and Step Functions take it.

        `input_uri` and `output_uri` override the file's locations.
        Source:
        https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html and
        API_TransformResources.html next to it (2026-11-28)
        """
        batch = self.batch
        # By the same source, a type with local disks rejects a key.
        encrypts = not self.placement.instance.local_nvme_gb
        request = {
            "TransformJobName": job_name,
            "ModelName": model_name,
            "MaxConcurrentTransforms": self.max_concurrent.value,
            "MaxPayloadInMB": self.payload_mb.value,
            "BatchStrategy": _API_VALUES.get(self.strategy.value),
            "ModelClientConfig": {
                "InvocationsTimeoutInSeconds": batch.timeout_seconds,
                "InvocationsMaxRetries": batch.max_retries,
            },
            "TransformInput": {
                "DataSource": {
                    "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": input_uri or batch.input}
                },
                "ContentType": batch.content_type,
                "CompressionType": _API_VALUES.get(batch.compression),
                "SplitType": _API_VALUES.get(self.split.value),
            },
            "TransformOutput": {
                "S3OutputPath": output_uri or batch.output,
                "Accept": self.accept.value,
                "AssembleWith": _API_VALUES.get(self.assemble.value),
                "KmsKeyId": batch.output_kms_key,
            },
            "TransformResources": {
                "InstanceType": batch.instance_type,
                "InstanceCount": batch.instances,
                "VolumeKmsKeyId": self.volume_kms_key if encrypts else None,
                "TransformAmiVersion": self.ami,
            },
            "DataProcessing": {
                "InputFilter": batch.input_filter,
                "OutputFilter": batch.output_filter,
                "JoinSource": "Input" if batch.join else None,
            },
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
        }
        return _drop_empty(request)


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without None and without empty tables and lists, at every level."""
    inside = {k: _drop_empty(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {key: value for key, value in inside.items() if value not in (None, {}, [])}


# A value of the file to the API's; what is not here is the API's default.
_API_VALUES: Mapping[str | None, str] = {
    "gzip": "Gzip", "line": "Line", "tfrecord": "TFRecord", "recordio": "RecordIO",
    "multi_record": "MultiRecord", "single_record": "SingleRecord",
}  # fmt: skip


def find_batch_job(environment: Environment, name: str) -> BatchJob | None:
    """Return the batch with its instance type's settings, or None if that type or the model is invalid."""
    batch, traffic = environment.batch[name], environment.traffic
    # The file's queue and other variants don't apply to a job.
    alone = environment.model_copy(update={"variants": {name: batch.variant}, "asynchronous": None})
    placed = find_placement(alone, name)
    if placed is None:
        return None
    size, rows = traffic.request_bytes, traffic.rows_per_request
    measured = {
        other: max(1, int(variant.scaling.max_concurrency_per_instance))
        for other, variant in environment.serving_variants.items()
        if (variant.model, variant.instance_type) == (batch.model, batch.instance_type)
        and variant.scaling
        and variant.scaling.max_concurrency_per_instance
    }
    return BatchJob(
        name=name,
        batch=batch,
        placement=replace(placed, table="batch"),
        record_bytes=None if size is None or rows is None else math.ceil(size / rows),
        measured_concurrency=next(iter(measured.items()), None),
        volume_kms_key=environment.endpoint.volume_kms_key,
        tags=environment.tags,
    )


def list_batch_jobs(environment: Environment) -> tuple[BatchJob, ...]:
    """Return the batches whose instance type and model are known."""
    jobs = (find_batch_job(environment, name) for name in environment.batch)
    return tuple(job for job in jobs if job is not None)
