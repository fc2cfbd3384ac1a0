"""A batch on its instance type: the settings that the file omits, and the request that starts a job."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from infra.catalog import images
from infra.parameters.batch.settings import DEFAULT_PAYLOAD_MB, MOST_PAYLOAD_MB, BatchSettings
from infra.parameters.environment import Environment
from infra.parameters.model import ModelTable
from infra.parameters.placement import Placement, placement
from infra.parameters.rollout import CONTENT_TYPES
from infra.policy.container import Batching, ContainerSettings
from infra.policy.derived_settings import Choice, Derived, merged, stated_or
from infra.policy.hosting import Hosting

CSV, JSON_LINES = CONTENT_TYPES[".csv"], CONTENT_TYPES[".jsonl"]
OF_LINES = (CSV, JSON_LINES, "application/jsons")
# The container's timeouts outlast the job's, so that the job's ends the wait and not a killed worker.
MARGIN_SECONDS = 30
# Folder under the output of what `servable batch --limit` reads and writes.
TRIALS = "servable-trial"
BYTES_PER_MB = 10**6
GPU_AMI = "al2-ami-sagemaker-batch-gpu-535"


def media_type(content_type: str) -> str:
    """A content type without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def answers_lines(model: ModelTable) -> bool | None:
    """Whether a request of many lines is answered with as many lines; None if your own code decides.

    Without a handler the container answers one object for all lines; Servable's handler answers in lines,
    but hooks may do otherwise.
    Source: tensorflowServing.js of https://github.com/aws/deep-learning-containers (2026-11-22)
    """
    if model.artifact is not None and model.handler is None:
        return None
    if model.code is None:
        return model.handler == "servable"
    return None


@dataclass(frozen=True, kw_only=True)
class BatchJob:
    """One batch whose instance type and model are known."""

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
        if self.placement.served.has_code is False:
            chosen, reason = "application/json", "without a handler every answer is JSON"
        else:
            chosen, reason = (
                self.batch.content_type,
                "as it was sent: filters and joins need both alike",
            )
        return stated_or("accept", self.batch.accept, chosen, reason)

    @property
    def split(self) -> Choice[str]:
        lines = media_type(self.batch.content_type) in OF_LINES
        reason = "a line is a record" if lines else "an object is one request"
        return stated_or("split", self.batch.split, "line" if lines else "none", reason)

    @property
    def strategy(self) -> Choice[str | None]:
        """multi_record or single_record; a value of None means neither, as an object is not split."""
        chosen: str | None = None
        reason = "an object is one request"
        if self.split.value != "none":
            lines, types = (
                answers_lines(self.placement.model),
                (self.batch.content_type, self.accept.value),
            )
            if lines and all(media_type(each) in OF_LINES for each in types):
                chosen, reason = "multi_record", "the handler answers each line with a line"
            else:
                chosen = "single_record"
                reason = (
                    "your code may answer many lines as one; multi_record is faster, if it does not"
                    if lines is None
                    else f"many lines have one answer as {self.accept.value}"
                    + ("" if lines else " without a handler")
                )
        return stated_or("strategy", self.batch.strategy, chosen, reason)

    @property
    def assemble(self) -> Choice[str]:
        line = self.split.value == "line"
        reason = "a record of the input is a line" if line else "one answer is the whole result"
        return stated_or("assemble", self.batch.assemble, "line" if line else "none", reason)

    @property
    def max_concurrent(self) -> Choice[int]:
        most = MOST_PAYLOAD_MB // (self.batch.payload_mb or 1)
        if self.measured_concurrency is not None:
            variant, number = self.measured_concurrency
            reason = f"measured on variants.{variant}"
        elif self.placement.workers:
            number, reason = self.placement.workers, "one for each Gunicorn worker"
        else:
            number = self.placement.instance.vcpus
            reason = f"one for each of {number} vCPUs"
        if number > most:
            number, reason = most, f"{reason}; more would exceed {MOST_PAYLOAD_MB} MB under way"
        return stated_or("max_concurrent", self.batch.max_concurrent, number, reason)

    @property
    def payload_mb(self) -> Choice[int]:
        most = max(1, MOST_PAYLOAD_MB // self.max_concurrent.value)
        if self.strategy.value == "multi_record":
            chosen, reason = (
                1,
                "the time of 1 MB is that of its rows; a failed request is sent again whole",
            )
        else:
            chosen, reason = DEFAULT_PAYLOAD_MB, "SageMaker's own default"
        record_mb = math.ceil((self.record_bytes or 0) / BYTES_PER_MB)
        if self.split.value != "none" and record_mb > chosen:
            chosen, reason = record_mb, f"a record of [traffic] has {self.record_bytes:,} bytes"
        if chosen > most:
            chosen, reason = most, f"{MOST_PAYLOAD_MB} MB divided by max_concurrent"
        return stated_or("payload_mb", self.batch.payload_mb, chosen, reason)

    @property
    def ami(self) -> str | None:
        """The AMI of a GPU instance: without one its driver is 470, on which CUDA 12 does not start.

        Source: API_TransformResources.html (2026-11-28), which has two; infra/catalog/inference_amis.json
        """
        cuda = images.number(images.built_cuda(self.placement.tensorflow))
        return GPU_AMI if self.placement.instance.gpus and cuda >= (12,) else None

    @property
    def choices(self) -> tuple[Choice[Any], ...]:
        """The settings of the job that the file may omit, each with its reason."""
        return (
            self.accept, self.split, self.strategy, self.assemble, self.max_concurrent, self.payload_mb,
        )  # fmt: skip

    @cached_property
    def derived(self) -> Derived:
        """The container's settings: a variant's, but for what a job needs otherwise."""
        seconds = self.batch.timeout_seconds + MARGIN_SECONDS
        outlasts = (
            f"outlasts the job's {self.batch.timeout_seconds} s, so that the job ends the wait"
        )
        chosen: dict[str, tuple[object, str]] = {
            choice.name: (choice.value, choice.reason) for choice in self.placement.derived.choices
        }
        waits, _ = chosen["wait_time_seconds"]
        if not isinstance(waits, int) or waits < seconds:
            chosen["wait_time_seconds"] = seconds, f"also of one request: {outlasts}"
        chosen["nginx_read_timeout_seconds"] = seconds, outlasts
        if self.placement.served.has_code is not False:
            chosen["gunicorn_timeout_seconds"] = seconds, outlasts
        if self.batch.container.batching is None:
            chosen["batching"] = self._batching()
        return merged(self.batch.container, chosen)

    def _batching(self) -> tuple[Batching | None, str]:
        if self.strategy.value == "multi_record":
            return (
                None,
                "off: a request is a batch already, and one with more rows would be refused",
            )
        if self.strategy.value is None or media_type(self.batch.content_type) not in OF_LINES:
            return None, "off: a request may have more rows than a batch, and would be refused"
        rows = self.max_concurrent.value
        if rows == 1:
            return None, "off: there is one request at a time"
        # With SAGEMAKER_BATCH, which SageMaker sets, the image's queue takes 100,000,000 batches:
        # tfs_utils.py of https://github.com/aws/deep-learning-containers (2026-08)
        return Batching(max_batch_size=rows), f"joins the {rows} records that are asked at a time"

    @property
    def settings(self) -> ContainerSettings:
        return self.derived.settings

    @property
    def deployed(self) -> Placement:
        """The model on its instance type, with the container's settings for the job."""
        return replace(self.placement, derived=self.derived)

    def hosting(self, region: str) -> Hosting:
        """Image and variables of the container. Raises KeyError for what preflight refuses."""
        return self.deployed.hosting(region)

    @property
    def output(self) -> str:
        """Beginning of the names of the stack's outputs about it; Model and StateMachine follow.

        nightly-scores gives BatchNightlyScores.
        """
        words = (word[:1].upper() + word[1:] for word in self.name.split("-"))
        return f"Batch{''.join(words)}"

    def request(
        self,
        *,
        job_name: str,
        model_name: str,
        input_uri: str | None = None,
        output_uri: str | None = None,
    ) -> dict[str, Any]:
        """The CreateTransformJob request, as botocore and Step Functions take it.

        `input_uri` and `output_uri` take the place of the file's.
        Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html and
        API_TransformResources.html beside it (2026-11-28)
        """
        batch = self.batch
        encrypts = (
            not self.placement.instance.local_nvme_gb
        )  # what has disks refuses a key: the same source
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
        return _present(request)


def _present(values: dict[str, Any]) -> dict[str, Any]:
    """The values and tables that are not None or empty."""
    inside = {k: _present(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {key: value for key, value in inside.items() if value not in (None, {}, [])}


# A value of the file to the API's; what is not here is the API's default.
_API_VALUES: Mapping[str | None, str] = {
    "gzip": "Gzip",
    "line": "Line",
    "tfrecord": "TFRecord",
    "recordio": "RecordIO",
    "multi_record": "MultiRecord",
    "single_record": "SingleRecord",
}


def batch_job(environment: Environment, name: str) -> BatchJob | None:
    """The batch on its instance type; None if its type or model is unknown, which a rule reports."""
    batch, traffic = environment.batch[name], environment.traffic
    # A job is no endpoint: what the file says of queues and of other variants is not about it.
    alone = environment.model_copy(update={"variants": {name: batch.variant}, "asynchronous": None})
    placed = placement(alone, name)
    if placed is None:
        return None
    size, rows = traffic.request_bytes, traffic.rows_per_request
    return BatchJob(
        name=name,
        batch=batch,
        placement=replace(placed, table="batch"),
        record_bytes=None if size is None or rows is None else math.ceil(size / rows),
        measured_concurrency=_measured(environment, batch),
        volume_kms_key=environment.endpoint.volume_kms_key,
        tags=environment.tags,
    )


def _measured(environment: Environment, batch: BatchSettings) -> tuple[str, int] | None:
    for name, variant in environment.served.items():
        measured = variant.scaling and variant.scaling.max_concurrency_per_instance
        same = (variant.model, variant.instance_type) == (batch.model, batch.instance_type)
        if same and measured:
            return name, max(1, int(measured))
    return None


def batch_jobs(environment: Environment) -> tuple[BatchJob, ...]:
    """The batches whose instance type and model are known."""
    jobs = (batch_job(environment, name) for name in environment.batch)
    return tuple(job for job in jobs if job is not None)
