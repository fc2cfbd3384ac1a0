"""Choose how a model is hosted: kind of endpoint, image, driver, variables, timeouts, and the disks' key.

Endpoints are real-time, asynchronous, or serverless. A multi-model endpoint is not a kind of its own:
`multi_model` is a model's property.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from infra.catalog import images, instances, metrics
from infra.catalog.images import Image
from infra.catalog.instances import Instance, load_instances
from infra.catalog.limits import find_documented_limit, find_maximum
from infra.policy.container import ContainerSettings, build_variables


def find_newest_version(instance: Instance) -> str:
    """Return the newest TensorFlow version whose image this instance type can run."""
    short = [version for version in images.list_versions() if version.count(".") == 1]
    return [version for version in short if can_run(version, instance)][-1]


def can_run(version: str, instance: Instance) -> bool:
    """Return whether this version's image is documented to have kernels for the type's GPU.

    The image also needs a driver: AWS lists no AMI for ml.p2 and ml.p3, whose default one runs
    CUDA 11.
    """
    is_new = images.parse_version(images.infer_cuda(version)) >= (12,)
    if is_new and instance.gpus and find_driver(version, instance) is None:
        return False
    newest_cuda = instances.find_gpu_fact(instance.gpu, "newest_cuda")
    if newest_cuda is None:
        return True
    cuda = images.find_cuda(version)
    newest = instances.find_gpu_fact(instance.gpu, "newest_tensorflow") or version
    is_old = images.parse_version(version) <= images.parse_version(newest)
    return cuda is not None and int(cuda.split(".")[0]) <= newest_cuda and is_old


@dataclass(frozen=True, kw_only=True)
class Hosting:
    tensorflow: str
    """TensorFlow version, for example 2.20."""
    image: Image
    variables: dict[str, str]


def build_hosting(
    *,
    instance: Instance,
    tensorflow: str,
    region: str,
    settings: ContainerSettings,
    default_model: str | None,
    own_image: str | None = None,
    own_variables: Mapping[str, str] | None = None,
) -> Hosting:
    """Return the container's image and variables on an instance type.

    `default_model` None means several models, of which each request names one. `own_image` and
    `own_variables` are the file's, if it has them. Raises KeyError for what preflight rejects: an
    unknown version or Region.
    """
    variables = build_variables(settings, default_model=default_model, tensorflow=tensorflow)
    image = images.parse_own_image(own_image or "")
    if own_image is None:
        image = images.find_image(version=tensorflow, device=instance.device, region=region)
    if image is None:
        raise KeyError(own_image)
    merged = {**(own_variables or {}), **variables}
    return Hosting(tensorflow=tensorflow, image=image, variables=dict(sorted(merged.items())))


def find_driver(version: str, instance: Instance) -> str | None:
    """Return the AMI whose driver supports the CUDA version of the version's image.

    Returns None without a GPU, for CUDA 11, and for a GPU family for which AWS lists no AMI.
    """
    cuda = images.infer_cuda(version)
    return instances.find_ami(cuda=cuda, family=instance.family) if instance.gpus else None


def find_shared_ami(hosts: Sequence[tuple[str, Instance]]) -> str | None:
    """Return the AMI of a variant on several types, each with its image's version; None if none needs one.

    Raises KeyError if no AMI fits all types: a variant has one.
    """
    drivers = {find_driver(version, instance) for version, instance in hosts}
    if len(drivers) == 1:
        return drivers.pop()
    fitting = [
        ami
        for ami in instances.list_amis()
        if all(
            instances.is_ami_listed_for(ami, instance.family)
            and instances.can_ami_run_cuda(ami, images.find_cuda(version) or _NEWER)
            for version, instance in hosts
        )
    ]
    if not fitting:
        raise KeyError(", ".join(instance.name for _, instance in hosts))
    return min(fitting, key=lambda ami: images.parse_version(instances.find_driver_cuda(ami)))


# Stands for a CUDA version that is not documented: no AMI is known to carry it.
_NEWER = "99.0"


@dataclass(frozen=True, kw_only=True)
class EndpointKind:
    """The properties of a kind of endpoint; `name` is its key in infra/catalog/metrics.json."""

    name: str
    request_bytes: int
    """Largest request body in bytes."""
    answer_bytes: int
    guide_bytes: int
    """Largest body by the developer guide, in bytes, if it states another number than the API;
    else the same."""
    invoke_action: str
    """The IAM action that callers need."""
    queued: bool
    """Whether requests wait in a queue and answers are written to S3 instead of returned."""
    has_instances: bool
    """Whether instances run without traffic; else a container may start while a caller waits."""
    scalable_dimension: str
    """The scalable dimension of Application Auto Scaling, which says what its numbers count."""
    scales_on: tuple[str, ...]
    """Keys of [variants.NAME.scaling] whose metric the kind publishes."""
    graphs: tuple[str, ...]
    """Graphs of each variant on the dashboard: methods of `VariantGraphs`, in order."""

    @property
    def can_be_empty(self) -> bool:
        """Return whether zero instances are possible without losing requests."""
        return self.queued or not self.has_instances

    def has_metric(self, metric: str) -> bool:
        """Return whether the kind publishes the metric. Raise KeyError if no endpoint does."""
        return metrics.is_published(self.name, metric)

    def __str__(self) -> str:
        """Return the kind's name for use in a sentence: real-time."""
        return self.name.replace("_", "-")


COPIES = "sagemaker:inference-component:DesiredCopyCount"
_INSTANCES = "sagemaker:variant:DesiredInstanceCount"
_GRAPHS_OF_INSTANCES = ("latency", "errors", "machines", "instances", "cost")

REAL_TIME = EndpointKind(
    name="real_time",
    request_bytes=find_maximum("BodyBlob", service="sagemaker-runtime"),
    answer_bytes=find_documented_limit("answer_bytes"),
    guide_bytes=find_documented_limit("real_time_guide_bytes"),
    invoke_action="sagemaker:InvokeEndpoint",
    queued=False,
    has_instances=True,
    scalable_dimension=_INSTANCES,
    scales_on=("max_rps_per_instance", "max_concurrency_per_instance", "steps"),
    graphs=("traffic", *_GRAPHS_OF_INSTANCES),
)
ASYNCHRONOUS = EndpointKind(
    name="asynchronous",
    request_bytes=find_documented_limit("asynchronous_bytes"),
    answer_bytes=find_documented_limit("asynchronous_bytes"),
    guide_bytes=find_documented_limit("asynchronous_bytes"),
    invoke_action="sagemaker:InvokeEndpointAsync",
    queued=True,
    has_instances=True,
    scalable_dimension=_INSTANCES,
    scales_on=("max_backlog_per_instance",),
    graphs=("queue", "failures", *_GRAPHS_OF_INSTANCES),
)
SERVERLESS = EndpointKind(
    name="serverless",
    request_bytes=find_documented_limit("serverless_bytes"),
    answer_bytes=find_documented_limit("serverless_bytes"),
    guide_bytes=find_documented_limit("serverless_bytes"),
    invoke_action="sagemaker:InvokeEndpoint",
    queued=False,
    has_instances=False,
    scalable_dimension="sagemaker:variant:DesiredProvisionedConcurrency",
    scales_on=("provisioned_use_percent",),
    graphs=("traffic", "latency", "errors", "concurrency"),
)
# Copies of inference components are scaled, and their instances follow.
OF_COPIES = replace(REAL_TIME, scalable_dimension=COPIES)
KINDS = (REAL_TIME, ASYNCHRONOUS, SERVERLESS)


def select_kind(*, queued: bool, has_instances: bool, copies: bool = False) -> EndpointKind:
    """Return an endpoint's kind, by whether it has a queue, instances, and copies."""
    if queued:
        return ASYNCHRONOUS
    if copies and has_instances:
        return OF_COPIES
    return REAL_TIME if has_instances else SERVERLESS


def can_use_volume_key(instance_types: Collection[str]) -> bool:
    """Return whether the key applies to the disks of these instance types.

    It doesn't if any type has local NVMe, which hardware encrypts without the key. An unknown
    type counts as one without local NVMe.
    Source:
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (KmsKeyId, 2026-11-22)
    """
    types = filter(None, map(load_instances().get, instance_types))
    return not any(instance.local_nvme_gb for instance in types)
