"""How one model is run on one machine: image, driver, variables."""

from dataclasses import dataclass

from infra.catalog import images
from infra.catalog.images import Image
from infra.catalog.inference_amis import ami_for, newest_ami
from infra.catalog.instances import instances
from infra.policy.container import variables_of
from infra.policy.container_settings import ContainerSettings
from infra.policy.image import newest_version


@dataclass(frozen=True, kw_only=True)
class Hosting:
    image: Image
    inference_ami: str | None
    """The host image whose driver carries the container image's CUDA; None on CPU and for CUDA 11."""
    variables: dict[str, str]


def hosting(
    *,
    instance_type: str,
    tensorflow: str | None,
    region: str,
    container: ContainerSettings,
    default_model: str | None,
) -> Hosting:
    """`tensorflow` None: the newest version whose image the machine can run.
    `default_model` None: several models, of which each request names one.

    Raises KeyError for what preflight refuses: an unknown instance type, version or region.
    """
    instance = instances()[instance_type]
    version = tensorflow or newest_version(instance)
    ami = _inference_ami(version) if instance.gpus else None
    return Hosting(
        image=images.image(version=version, device=instance.device, region=region),
        inference_ami=ami,
        variables=variables_of(container, default_model=default_model),
    )


# TensorFlow is built for CUDA 12 from this version on.
# https://www.tensorflow.org/install/source#gpu
FIRST_WITH_CUDA_12 = (2, 15)


def _inference_ami(version: str) -> str | None:
    """Where the image's CUDA is not documented, the newest driver: it runs every older CUDA."""
    cuda = images.cuda(version)
    if cuda is not None:
        return ami_for(cuda=cuda)
    major, minor = (int(part) for part in version.split(".")[:2])
    return newest_ami() if (major, minor) >= FIRST_WITH_CUDA_12 else None
