"""SageMaker's operations on transform jobs."""

from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.listings import list_page
from servable_local.aws.sagemaker.model_api import ModelApi
from servable_local.aws.sagemaker.transform_job import TransformJob

_MOST_MB = 100
_MOST_INSTANCES = 100
# What would be kept here and change nothing.
_WITHOUT_EFFECT = ("DataCaptureConfig", "ExperimentConfig")


class ResourceInUseError(ServiceException):
    code = "ResourceInUse"


def refuse_limits(request: dict[str, Any]) -> None:
    """Raises `SageMakerError` for what API_CreateTransformJob.html excludes; the words are ours.

    Raises NotImplementedError, which is answered 501, for what would have no effect here.
    """
    for name in _WITHOUT_EFFECT:
        if name in request:
            raise NotImplementedError(f"{name} of CreateTransformJob would have no effect here")
    megabytes, concurrent = request.get("MaxPayloadInMB", 6), request.get("MaxConcurrentTransforms")
    if megabytes == 0:
        raise NotImplementedError("MaxPayloadInMB 0, a body in chunks, is not sent here")
    if megabytes * (concurrent or 1) > _MOST_MB:
        raise SageMakerError(
            f"MaxConcurrentTransforms * MaxPayloadInMB must not exceed {_MOST_MB}; "
            f"given: {concurrent or 1} * {megabytes}."
        )
    if request["TransformResources"]["InstanceCount"] > _MOST_INSTANCES:
        raise SageMakerError(f"InstanceCount must be at most {_MOST_INSTANCES}.")
    source = request["TransformInput"]["DataSource"].get("S3DataSource", {})
    if source.get("S3DataType") not in ("S3Prefix", "ManifestFile"):
        raise SageMakerError("S3DataType of a transform job is S3Prefix or ManifestFile.")


class TransformApi(ModelApi):
    """Jobs, beside models and endpoint configurations."""

    def create_transform_job(self) -> ActionResult:
        request, here = self._asked(), self.here
        refuse_limits(request)
        name = request["TransformJobName"]
        arn = here.arn("transform-job", name)
        if name.lower() in here.jobs:
            raise ResourceInUseError(
                "Job name must be unique within an AWS account and region, and a job with this name "
                f"already exists ({arn})"
            )
        model = here.models.get(request["ModelName"]).request
        self._tag(arn, request)
        try:
            job = TransformJob(request, arn, here.job_dependencies(model))
        except ValueError as error:
            raise SageMakerError(str(error)) from None
        here.jobs[name.lower()] = job
        job.start()
        return ActionResult({"TransformJobArn": arn})

    def _job(self) -> TransformJob:
        job = self.here.jobs.get(self._get_param("TransformJobName").lower())
        if job is None:
            raise SageMakerError("Requested resource not found.")
        return job

    def describe_transform_job(self) -> ActionResult:
        return ActionResult(self._job().describe())

    def stop_transform_job(self) -> ActionResult:
        self._job().stop()
        return EmptyResult()

    def list_transform_jobs(self) -> ActionResult:
        summaries = [_summary(job) for job in list(self.here.jobs.values())]
        page = list_page(self._asked(), "TransformJob", summaries, "TransformJobSummaries")
        return ActionResult(page)


def _summary(job: TransformJob) -> dict[str, Any]:
    shown = job.describe()
    names = ("Name", "Arn", "Status")
    return {
        **{f"TransformJob{name}": shown[f"TransformJob{name}"] for name in names},
        "CreationTime": job.created,
        "LastModifiedTime": job.modified,
        **{n: shown[n] for n in ("TransformEndTime", "FailureReason") if n in shown},
    }
