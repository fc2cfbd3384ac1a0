"""Choose how a model is hosted: kind of endpoint, image, driver, variables, timeouts, and the disks' key.

Endpoints are real-time, asynchronous, or serverless. A multi-model endpoint is not a kind of its own:
`multi_model` is a model's property.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from infra.catalog import images, metrics
from infra.catalog.images import Image
from infra.catalog.instances import (
    Instance,
    ami_for,
    carries,
    cuda_of,
    instances,
    names,
    newest_cuda,
    newest_tensorflow,
    runs_on,
)
from infra.catalog.limits import documented, most
from infra.policy.container import ContainerSettings, variables_of


def newest_version(instance: Instance) -> str:
    """The newest TensorFlow version whose image this instance type can run.

    On a GPU that newer CUDA does not support (ml.p2), it is the newest whose image is documented to
    have an older CUDA; SageMaker itself refuses ml.p2 from TensorFlow 2.12 on.
    """
    short = [version for version in images.versions() if version.count(".") == 1]
    return [version for version in short if runs(version, instance)][-1]


def runs(version: str, instance: Instance) -> bool:
    """Whether the image of this version has kernels for the instance type's GPU, as far as documented.

    It also needs a driver: AWS lists no AMI for ml.p2 and ml.p3, whose default one runs CUDA 11.
    """
    is_new = images.number(images.built_cuda(version)) >= (12,)
    if is_new and instance.gpus and driver_for(version, instance) is None:
        return False
    newest = newest_cuda(instance.gpu) if instance.gpu else None
    if newest is None:
        return True
    cuda = images.cuda(version)
    return (
        cuda is not None
        and int(cuda.split(".")[0]) <= newest
        and images.number(version)
        <= images.number(newest_tensorflow(instance.gpu or "") or version)
    )


@dataclass(frozen=True, kw_only=True)
class Hosting:
    tensorflow: str
    """TensorFlow version, for example 2.20."""
    image: Image
    variables: dict[str, str]


def hosting(
    *,
    instance: Instance,
    tensorflow: str,
    region: str,
    settings: ContainerSettings,
    default_model: str | None,
    own_image: str | None = None,
    own_variables: Mapping[str, str] | None = None,
) -> Hosting:
    """`default_model` None means several models, of which each request names one.

    `own_image` and `own_variables` are the file's, if it has them.
    Raises KeyError for what preflight refuses: an unknown version or region.
    """
    variables = variables_of(settings, default_model=default_model, tensorflow=tensorflow)
    if own_image is None:
        image: Image | None = images.image(
            version=tensorflow, device=instance.device, region=region
        )
    else:
        image = images.own_image(own_image)
    if image is None:
        raise KeyError(own_image)
    return Hosting(
        tensorflow=tensorflow,
        image=image,
        variables=dict(sorted({**(own_variables or {}), **variables}.items())),
    )


def driver_for(version: str, instance: Instance) -> str | None:
    """The AMI whose driver supports the CUDA of the version's image; None without a GPU, for CUDA 11, and
    for a GPU family for which AWS lists none.

    If the image's CUDA is not documented, it is that of TensorFlow's own wheel.
    """
    if not instance.gpus:
        return None
    return ami_for(cuda=images.built_cuda(version), family=instance.family)


def driver_for_all(hosts: Sequence[tuple[str, Instance]]) -> str | None:
    """The AMI of a variant on several instance types, each with its image's TensorFlow version.

    None if no type needs one. Raises KeyError if no AMI is for all of them: a variant has one.
    """
    drivers = {driver_for(version, instance) for version, instance in hosts}
    if len(drivers) == 1:
        return drivers.pop()
    fitting = [
        ami
        for ami in names()
        if all(
            runs_on(ami, instance.family) and carries(ami, images.cuda(version) or _NEWER)
            for version, instance in hosts
        )
    ]
    if not fitting:
        raise KeyError(", ".join(instance.name for _, instance in hosts))
    return min(fitting, key=lambda ami: images.number(cuda_of(ami)))


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
    def may_be_empty(self) -> bool:
        """Whether zero instances are possible without losing requests."""
        return self.queued or not self.has_instances

    def publishes(self, metric: str) -> bool:
        """Whether the kind publishes the metric. Raises KeyError for a metric that no endpoint has."""
        return metrics.publishes(self.name, metric)

    def __str__(self) -> str:
        """The name in a sentence: real-time."""
        return self.name.replace("_", "-")


COPIES = "sagemaker:inference-component:DesiredCopyCount"
_INSTANCES = "sagemaker:variant:DesiredInstanceCount"
_GRAPHS_OF_INSTANCES = ("latency", "errors", "machines", "instances", "cost")

REAL_TIME = EndpointKind(
    name="real_time",
    request_bytes=most("BodyBlob", service="sagemaker-runtime"),
    answer_bytes=documented("answer_bytes"),
    guide_bytes=documented("real_time_guide_bytes"),
    invoke_action="sagemaker:InvokeEndpoint",
    queued=False,
    has_instances=True,
    scalable_dimension=_INSTANCES,
    scales_on=("max_rps_per_instance", "max_concurrency_per_instance", "steps"),
    graphs=("traffic", *_GRAPHS_OF_INSTANCES),
)
ASYNCHRONOUS = EndpointKind(
    name="asynchronous",
    request_bytes=documented("asynchronous_bytes"),
    answer_bytes=documented("asynchronous_bytes"),
    guide_bytes=documented("asynchronous_bytes"),
    invoke_action="sagemaker:InvokeEndpointAsync",
    queued=True,
    has_instances=True,
    scalable_dimension=_INSTANCES,
    scales_on=("max_backlog_per_instance",),
    graphs=("queue", "failures", *_GRAPHS_OF_INSTANCES),
)
SERVERLESS = EndpointKind(
    name="serverless",
    request_bytes=documented("serverless_bytes"),
    answer_bytes=documented("serverless_bytes"),
    guide_bytes=documented("serverless_bytes"),
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


def kind_of(*, queued: bool, has_instances: bool, copies: bool = False) -> EndpointKind:
    """The kind of an endpoint with or without a queue, on instances or not, of copies or not."""
    if queued:
        return ASYNCHRONOUS
    if copies and has_instances:
        return OF_COPIES
    return REAL_TIME if has_instances else SERVERLESS


def takes_volume_key(instance_types: Collection[str]) -> bool:
    """Whether the key applies. False if any type has local NVMe, which hardware encrypts without the key.
    An unknown type counts as one without local NVMe.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (KmsKeyId, 2026-11-22)
    """
    types = filter(None, map(instances().get, instance_types))
    return not any(instance.local_nvme_gb for instance in types)
