"""Rules about a batch itself: its model, instance type, names, times and locations."""

import contextlib
import math

from infra.catalog import images
from infra.catalog.instances import find_driver_cuda, load_instances
from infra.catalog.limits import find_limit
from infra.parameters.batch.job import MARGIN_SECONDS, BatchJob
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.finding import Severity, suggest_name
from infra.preflight.rule import Findings, Parts, Rule
from infra.preflight.scaling.schedules import load_time_zones, suggest_time_zone
from servable_scaling.schedule import ScheduleError, compute_last_run, parse_interval_seconds

# Names of state machines have at most 80 characters, names of schedules 64.
# https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html (2026-11-28)
MOST_NAME = 64
# The driver 535 of the newer AMI of transform jobs is that of this one of endpoints.
_SAME_DRIVER = "al2-ami-sagemaker-inference-gpu-2"


class BatchTableRule(Rule):
    """A rule about each batch: `find_problems` takes its name and its table."""

    def list_parts(self) -> Parts:
        return self.environment.batch.items()


class BatchJobRule(Rule):
    """A rule about each batch whose model and instance type are known."""

    def list_parts(self) -> Parts:
        return ((job,) for job in self.candidate.batch_jobs)


class TransformModelUnknown(BatchTableRule):
    """The model of a batch must be defined in this file."""

    key = "batch.{name}.model"
    problem = "there is no model {batch.model!r}"

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        models = self.candidate.model_names
        if batch.model not in models:
            allowed = ", ".join(models) or "none: the file has no [models.NAME]"
            yield self.build_finding(allowed=allowed, remedy=suggest_name(batch.model, models))


class TransformMultiModel(BatchTableRule):
    """A transform job cannot say which of several models a request is for: it has no TargetModel.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html (2026-11-28)
    """

    key = "batch.{name}.model"
    problem = "{batch.model} has several models, but a job cannot select one"
    remedy = "write one batch for each model"
    reads = ("models.{batch.model}",)

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        model = self.environment.models.get(batch.model)
        if model is not None and model.multi_model is not None:
            yield self.build_finding()


class TransformInstanceType(BatchTableRule):
    """Batch transform has fewer instance types than endpoints: no ml.c5.large, no ml.t2, no Graviton.

    Source: infra/catalog/limits.json, TransformInstanceType
    """

    key = "batch.{name}.instance_type"

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        known = load_instances()
        kinds = [kind for kind in find_limit("TransformInstanceType")["enum"] if kind in known]
        if batch.instance_type not in kinds:
            where = "for endpoints only" if batch.instance_type in known else "unknown"
            yield self.build_finding(
                problem=f"{batch.instance_type!r} is {where}",
                allowed=f"the {len(kinds)} types of batch transform, such as ml.c5.xlarge",
                remedy=suggest_name(batch.instance_type, kinds),
            )


class TransformGpuDriver(BatchJobRule, severity=Severity.WARNING):
    """Transform jobs have the NVIDIA drivers 470 and 535: an image with newer CUDA may not start.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TransformResources.html
    (TransformAmiVersion), infra/catalog/inference_amis.json (2026-11-28)
    """

    key = "batch.{job.name}.instance_type"
    problem = (
        "{job.batch.instance_type}: TensorFlow {job.placement.tensorflow}'s image has CUDA {cuda}, and the "
        "newest driver of transform jobs, 535, supports CUDA {newest}"
    )
    remedy = "try a job before you rely on it, or choose a type without a GPU"
    reads = ("models.{job.batch.model}.tensorflow",)

    def find_problems(self, job: BatchJob) -> Findings:
        cuda, newest = images.infer_cuda(job.placement.tensorflow), find_driver_cuda(_SAME_DRIVER)
        if job.ami is not None and images.parse_version(cuda) > images.parse_version(newest):
            yield self.build_finding(cuda=cuda, newest=newest)


class TransformName(BatchTableRule):
    """The endpoint's name and the batch's are the name of its state machine and schedule, in one account.

    Source: https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html (2026-11-28)
    """

    key = "batch.{name}"

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        whole = f"{self.environment.endpoint.name}-{name}"
        if len(whole) > MOST_NAME:
            yield self.build_finding(
                problem=f"{whole} has {len(whole)} characters",
                allowed=f"at most {MOST_NAME}",
                remedy="shorten the name of the batch",
                reads=("endpoint.name",),
            )
        plain, names = name.replace("-", "").lower(), list(self.environment.batch)
        for other in names[: names.index(name)]:
            if other.replace("-", "").lower() == plain:
                problem = f"{name} and {other} would have the same stack output names"
                yield self.build_finding(problem=problem, remedy="rename one")


class TransformSchedule(BatchTableRule):
    """EventBridge Scheduler rejects an invalid expression or time zone.

    Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html (2026-11-28)
    """

    key = "batch.{name}.schedule"

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        if batch.schedule is None:
            return
        zone, zones = batch.timezone, load_time_zones()
        if zones and zone not in zones:
            yield self.build_finding(
                f"batch.{name}.timezone",
                f"{zone!r} is not a time zone",
                allowed="names such as Europe/Berlin, or UTC",
                remedy=suggest_time_zone(zone),
                reads=(f"batch.{name}.schedule",),
            )
        try:
            compute_last_run(batch.schedule)
        except ScheduleError as wrong:
            problem = f"{batch.schedule}: {wrong}"
            yield self.build_finding(problem=problem, allowed=wrong.allowed, remedy="correct it")


class TransformLate(BatchTableRule, severity=Severity.WARNING):
    """If late_minutes isn't below max_minutes, a late run raises no alarm of its own."""

    key = "batch.{name}.late_minutes"
    problem = "late_minutes {batch.late_minutes} is too high: a run ends after {batch.max_minutes} minutes"
    remedy = "lower it, or raise max_minutes"
    reads = ("batch.{name}.max_minutes",)

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        if batch.late_minutes >= batch.max_minutes:
            yield self.build_finding()


class TransformOverlap(BatchTableRule, severity=Severity.WARNING):
    """A run that starts before the last one has ended repeats its work, and you pay for it twice."""

    key = "batch.{name}.schedule"
    problem = "{batch.schedule} starts up to {runs} runs within max_minutes {batch.max_minutes}"
    remedy = "start runs less often, or lower max_minutes"
    reads = ("batch.{name}.max_minutes",)

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        with contextlib.suppress(ScheduleError):  # the rule TransformSchedule reports it
            seconds = parse_interval_seconds(batch.schedule) if batch.schedule else None
            if seconds is not None and seconds < 60 * batch.max_minutes:
                yield self.build_finding(runs=f"{math.ceil(60 * batch.max_minutes / seconds):,}")


class TransformOutputInside(BatchTableRule):
    """Every object under the input is an input: the next run would also read the last run's results.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TransformS3DataSource.html
    (S3Prefix: all objects that match the key name prefix, 2026-11-28)
    """

    key = "batch.{name}.output"
    problem = "{batch.output} is under the input {batch.input}"
    remedy = "choose another prefix, or end the input with a slash"
    reads = ("batch.{name}.input",)

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        # Results lie below the output, whose slash at the end may be left out.
        if f"{batch.output.rstrip('/')}/".startswith(batch.input):
            yield self.build_finding()


class TransformOutputShared(BatchTableRule):
    """Results are named after their objects: with a shared output, the later batch overwrites."""

    key = "batch.{name}.output"
    problem = (
        "{other} also writes to {batch.output}, and results with the same name overwrite each other"
    )
    remedy = "choose another prefix"
    reads = ("batch.{other}.output",)

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        for other, before in self.environment.batch.items():
            if other == name:
                return
            if before.output.rstrip("/") == batch.output.rstrip("/"):
                yield self.build_finding(other=other)


class TransformReadsResults(BatchTableRule, severity=Severity.WARNING):
    """A batch that reads another's results reads those that exist when it starts, also of trials."""

    key = "batch.{name}.input"
    problem = (
        "{batch.input} contains the results of {other}: a run reads those that exist at its start, also "
        "those of `servable batch --limit`"
    )
    remedy = "choose another prefix, or start it when {other} has completed, and try with another --output"
    reads = ("batch.{other}.output",)

    def find_problems(self, name: str, batch: BatchSettings) -> Findings:
        for other, writing in self.environment.batch.items():
            if other != name and f"{writing.output.rstrip('/')}/".startswith(batch.input):
                yield self.build_finding(other=other)


class TransformTimeout(BatchJobRule):
    """A container timeout below the job's timeout ends requests that the job still waits for.

    Source: serve.py and tfs_utils.py of https://github.com/aws/deep-learning-containers (2026-11-22)
    """

    remedy = "remove it: Servable then chooses it"
    reads = ("batch.{job.name}.timeout_seconds",)

    def find_problems(self, job: BatchJob) -> Findings:
        container, seconds = job.batch.container, job.batch.timeout_seconds
        for name in ("gunicorn_timeout_seconds", "nginx_read_timeout_seconds", "wait_time_seconds"):
            given = getattr(container, name)
            if given is not None and given < seconds:
                key = f"batch.{job.name}.container.{name}"
                problem = f"{name} {given} ends requests before the job's timeout_seconds {seconds}"
                allowed = f"{seconds} or more; {seconds + MARGIN_SECONDS} is chosen"
                yield self.build_finding(key, problem, allowed=allowed)
