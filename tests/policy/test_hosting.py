"""An instance type gets its image, driver, and timeouts; a kind of endpoint its bounds and metrics."""

import pytest

from infra.catalog.instances import Instance, load_instances
from infra.policy import hosting
from infra.policy.container import ContainerSettings
from infra.policy.hosting import ASYNCHRONOUS, REAL_TIME, SERVERLESS

GPU_2 = "al2-ami-sagemaker-inference-gpu-2"
GPU_3 = "al2-ami-sagemaker-inference-gpu-3-1"
GPU_4 = "al2023-ami-sagemaker-inference-gpu-4-1"
OWN_IMAGE = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/tfs:2"


def machine(name: str) -> Instance:
    return load_instances()[f"ml.{name}"]


# SageMaker refuses ml.p2 from 2.12 on (infra/catalog/gpus.json); its K80 has no kernels of CUDA 12.
def test_the_newest_version_is_the_last_that_the_gpu_has_kernels_for() -> None:
    for name, newest in [
        ("c5.xlarge", "2.20"),
        ("g5.xlarge", "2.20"),
        ("p3.2xlarge", "2.14"),
        ("p2.xlarge", "2.10"),
    ]:
        assert hosting.find_newest_version(machine(name)) == newest
    for version, name, kernels in [
        ("2.0", "c5.xlarge", True),
        ("2.18", "g5.xlarge", True),
        ("2.10", "p2.xlarge", True),
        ("2.11", "p2.xlarge", False),  # its CUDA is not documented
        ("2.14", "p2.xlarge", False),  # CUDA 11.8, and refused by SageMaker
        ("2.18", "p3.2xlarge", False),
        ("2.14", "p3.2xlarge", True),
    ]:
        assert hosting.can_run(version, machine(name)) is kernels


# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
# (InferenceAmiVersion): CUDA 12.2, 12.4 and 13.0; the images have 11.8, 12.2 and 12.9.
def test_the_driver_is_the_oldest_that_carries_the_images_cuda() -> None:
    for version, name, ami in [
        ("2.20", "c5.xlarge", None),
        ("2.20", "g5.xlarge", GPU_3),
        ("2.19", "g5.xlarge", GPU_2),
        ("2.19", "p5e.48xlarge", GPU_3),
        ("2.19", "g7e.2xlarge", GPU_4),
        ("2.18", "g5.xlarge", GPU_3),  # built with CUDA 12.5
        ("2.20", "p6-b200.48xlarge", GPU_4),  # AWS lists no other
        ("2.14", "g5.xlarge", None),
        ("2.13", "g5.xlarge", None),
        ("2.20", "p3.2xlarge", None),
    ]:
        assert hosting.find_driver(version, machine(name)) == ami


def test_several_types_share_the_oldest_driver_that_is_for_all_or_are_named() -> None:
    for hosts, ami in [
        ([("2.20", "c5.xlarge"), ("2.19", "m5.xlarge")], None),
        ([("2.19", "g5.xlarge"), ("2.19", "g6.xlarge")], GPU_2),
        # It mounts CUDA's compatibility libraries.
        ([("2.19", "g5.xlarge"), ("2.20", "g6.xlarge")], GPU_2),
        ([("2.19", "g6.xlarge"), ("2.19", "p5e.48xlarge")], GPU_3),
        ([("2.19", "p5e.48xlarge"), ("2.20", "g5.xlarge")], GPU_3),
        ([("2.19", "g5.xlarge"), ("2.19", "p5e.48xlarge")], GPU_3),
        ([("2.18", "g5.xlarge"), ("2.18", "g6.xlarge")], GPU_3),
    ]:
        assert hosting.find_shared_ami([(version, machine(name)) for version, name in hosts]) == ami
    for hosts, names in [
        ([("2.19", "g5.xlarge"), ("2.20", "p3.2xlarge")], "ml.g5.xlarge, ml.p3.2xlarge"),
        ([("2.18", "g5.xlarge"), ("2.19", "g5.2xlarge")], "ml.g5.xlarge, ml.g5.2xlarge"),
    ]:
        with pytest.raises(KeyError, match=names):
            hosting.find_shared_ami([(version, machine(name)) for version, name in hosts])


def hosted(
    name: str = "g5.xlarge", settings: ContainerSettings | None = None, **given: object
) -> hosting.Hosting:
    return hosting.build_hosting(
        instance=machine(name),
        tensorflow="2.20",
        region="eu-west-1",
        settings=settings or ContainerSettings(tfs_processes=2, gunicorn_workers=3),
        default_model="ranker",
        **given,  # type: ignore[arg-type]
    )


def test_the_image_is_awss_for_the_device_and_region_or_ones_own_from_ecr() -> None:
    for name, device in [("c5.xlarge", "cpu"), ("g5.xlarge", "gpu")]:
        image = hosted(name).image
        assert (image.region, image.repository) == ("eu-west-1", "tensorflow-inference")
        assert device in image.tag
    assert hosted(own_image=OWN_IMAGE).image.uri == OWN_IMAGE
    with pytest.raises(KeyError, match="docker.io/tfs"):
        hosted(own_image="docker.io/tfs")


def test_variables_of_ones_own_are_sorted_among_others_and_replace_no_setting() -> None:
    own = {"MINE": "1", "SAGEMAKER_GUNICORN_WORKERS": "9"}
    assert hosted(own_variables=own).variables == {
        "MINE": "1",
        "SAGEMAKER_GUNICORN_WORKERS": "3",
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker",
        "SAGEMAKER_TFS_INSTANCE_COUNT": "2",
    }
    names = list(hosted(own_variables={"Z": "1", "A": "1"}).variables)
    assert names == sorted(names)


# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html (KmsKeyId)
def test_a_volume_key_applies_where_no_type_has_local_nvme() -> None:
    for types, taken in [
        (["ml.c5.xlarge", "ml.unheard-of.xlarge"], True),
        (["ml.c5.xlarge", "ml.g5.xlarge"], False),
        ([], True),
    ]:
        assert hosting.can_use_volume_key(types) is taken


def test_a_queue_and_instances_make_the_kind() -> None:
    kinds = {(True, True): ASYNCHRONOUS, (False, True): REAL_TIME, (False, False): SERVERLESS}
    for (queued, has_instances), kind in kinds.items():
        assert hosting.select_kind(queued=queued, has_instances=has_instances) is kind
        assert (kind.queued, kind.has_instances) == (queued, has_instances)
    assert str(REAL_TIME) == "real-time"


def test_bodies_empty_fleets_and_metrics_are_those_of_the_kind() -> None:
    # BodyBlob of botocore's sagemaker-runtime model; the developer guide's pages on each kind.
    assert {str(kind): (kind.request_bytes, kind.answer_bytes) for kind in hosting.KINDS} == {
        "real-time": (6_291_456, 6_291_456),
        "asynchronous": (2**30, 2**30),
        "serverless": (4 * 2**20, 4 * 2**20),
    }
    assert [str(one) for one in hosting.KINDS if one.can_be_empty] == ["asynchronous", "serverless"]
    for kind, metric, published in [
        (REAL_TIME, "ModelLatency", True),
        (REAL_TIME, "ApproximateBacklogSize", False),
        (ASYNCHRONOUS, "ApproximateBacklogSize", True),
        (SERVERLESS, "OverheadLatency", True),
    ]:
        assert kind.has_metric(metric) is published
