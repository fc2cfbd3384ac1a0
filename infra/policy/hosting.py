"""Hosting of a model on an instance type: image, driver, variables, timeouts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.catalog import gpus, images
from infra.catalog.images import Image
from infra.catalog.inference_amis import ami_for, carries, cuda_of, names, runs_on
from infra.catalog.instances import Instance
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
    newest = gpus.newest_cuda(instance.gpu) if instance.gpu else None
    if newest is None:
        return True
    cuda = images.cuda(version)
    return (
        cuda is not None
        and int(cuda.split(".")[0]) <= newest
        and images.number(version)
        <= images.number(gpus.newest_tensorflow(instance.gpu or "") or version)
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
