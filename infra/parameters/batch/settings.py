"""[batch.NAME]: a batch transform job, which runs a model over the objects of a bucket and ends."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from infra.catalog.limits import find_maximum
from infra.parameters.scaling import When
from infra.parameters.sources import convert_table_variables
from infra.parameters.table import KmsKeyArn, Table, build_range
from infra.parameters.variant import VariableName, Variant
from infra.policy.container import ContainerSettings

Location = Annotated[
    str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]/[^*?$]*$", max_length=1024)
]
JsonPath = Annotated[str, Field(pattern=r"^\$", max_length=find_maximum("JsonPath"))]
TIMEOUT, RETRIES = "InvocationsTimeoutInSeconds", "InvocationsMaxRetries"
# SageMaker's defaults, and its maximum of the product of both.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html (2026-11-28)
DEFAULT_PAYLOAD_MB, DEFAULT_TIMEOUT_SECONDS = 6, 600
MOST_PAYLOAD_MB = 100
MediaType = Annotated[str, Field(pattern=r"^[\x20-\x7e]+$", max_length=256)]


class BatchSettings(Table):
    """A job reads every object under `input`, on instances of its own, and writes NAME.out for each under
    `output`. An object whose records were not all answered has no result, and fails the run.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform.html (2026-11-28)
    """

    model: str
    """Name of the [models.NAME] table that answers the records."""
    instance_type: str
    """SageMaker instance type, for example ml.c5.xlarge. Batch transform has fewer types than endpoints:
    `servable check` names them."""
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TransformResources.html (2026-11-28)
    instances: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of instances of a run. They share the objects, and an object is never divided: more instances
    than objects cost money and stay idle."""
    input: Location
    """Prefix of the objects in one of your buckets, for example s3://bucket/rows/. Every object under it is
    an input. End it with a slash: `rows` also matches `rows-old/`."""
    output: Location
    """Prefix of the results in one of your buckets, outside `input`. A run overwrites the results of the
    last one."""
    input_kms_key: KmsKeyArn | None = None
    """KMS key that the input is encrypted with. Default: S3's own key. The key's policy must allow what
    docs/reference/permissions.md lists."""
    output_kms_key: KmsKeyArn | None = None
    """KMS key of the results. Default: S3's own key. The key's policy must allow what
    docs/reference/permissions.md lists."""
    content_type: MediaType
    """Content type of the objects, for example text/csv or application/jsonlines. It applies to every
    request to the container."""
    accept: MediaType | None = None
    """Content type of the answers. Default: `content_type`, which filters and joins need; without a
    handler application/json, because the container always answers in JSON."""
    compression: Literal["none", "gzip"] = "none"
    """Compression of the objects. The results are not compressed."""
    split: Literal["none", "line", "tfrecord", "recordio"] | None = None
    """Records in an object. none: the whole object is one request. Default: line for CSV and JSON lines,
    otherwise none."""
    strategy: Literal["multi_record", "single_record"] | None = None
    """Records in a request. multi_record: as many as payload_mb holds, which is faster; the container must
    answer with one line for each. single_record: one. Default: multi_record if Servable's handler answers
    line by line, otherwise single_record; without `split`, neither."""
    assemble: Literal["none", "line"] | None = None
    """Ends of the answers in a result. line: each on a line of its own. Default: line if `split` is line,
    otherwise none."""
    input_filter: JsonPath | None = None
    """Part of a record that the model gets, as JSONPath: "$[1:]" leaves out the first column. Default:
    all of it."""
    output_filter: JsonPath | None = None
    """Part of an answer, or with `join` of the joined record, that the result keeps, as JSONPath. Default:
    all of it."""
    join: bool = False
    """Whether each answer is joined to its record: as further columns of CSV, in JSON as SageMakerOutput."""
    payload_mb: Annotated[int, Field(ge=1, le=MOST_PAYLOAD_MB)] | None = None
    """Largest request, in MB; a record must fit. Default: 1 with multi_record, because the time of such a
    request depends on its rows; otherwise SageMaker's 6, or less if max_concurrent requires it."""
    max_concurrent: Annotated[int, Field(ge=1, le=MOST_PAYLOAD_MB)] | None = None
    """Requests that one instance gets at a time. payload_mb times max_concurrent is at most 100. Default:
    measured concurrency of a variant with this model and instance type, else one for each Gunicorn worker,
    or without code for each vCPU. SageMaker's own is 1, which leaves the other workers idle."""
    timeout_seconds: Annotated[int, build_range(TIMEOUT)] = DEFAULT_TIMEOUT_SECONDS
    """Seconds that a request may take. 600 is SageMaker's; the container's own timeouts, which are 30 and
    60 s in the image, are raised above it."""
    max_retries: Annotated[int, build_range(RETRIES)] = find_maximum(RETRIES)
    """Number of times that a failed request is sent again. 3 is SageMaker's, and the most that it allows."""
    schedule: When | None = None
    """Start of the runs: cron(0 2 * * ? *) is two o'clock every night; rate(1 day) and
    at(2026-12-24T18:00:00) work too. Default: none, runs are started by hand or by your pipeline."""
    timezone: str = "UTC"
    """Time zone of `schedule`, for example Europe/Berlin; daylight saving time is followed. Default: UTC,
    as in EventBridge Scheduler."""
    late_minutes: Annotated[int, Field(ge=1, le=10_080)] = 240
    """Minutes after which a run is late: a message reports it while it runs, and an alarm when it ends. 240:
    a run that starts at 02:00 is done by 06:00."""
    max_minutes: Annotated[int, Field(ge=1, le=40_320)] = 1440
    """Minutes after which a run fails and its job is stopped. 1440, a day: a nightly run does not
    meet the next one."""
    environment: dict[VariableName, Annotated[str, Field(max_length=10_240)]] = Field(default={})
    """Container environment variables, as for a variant."""
    container: ContainerSettings = ContainerSettings()
    """Settings of the container on its instance. Omitted keys are chosen as a variant's, for the instance
    type, the model and the code; timeouts and batching are chosen for the job."""

    _read_pasted = model_validator(mode="before")(convert_table_variables)

    @property
    def variant(self) -> Variant:
        """Return the variant that an endpoint with the batch's model and settings would have."""
        return Variant(
            model=self.model,
            instance_type=self.instance_type,
            min_instances=self.instances,
            container=self.container,
            environment=self.environment,
        )
