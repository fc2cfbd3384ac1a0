"""What the catalog says of an instance type."""

import gzip
import json
from importlib import resources

import botocore.session

from infra.catalog.instances import can_ami_run_cuda, find_ami, find_gpu_fact, load_instances

EC2 = json.loads(
    gzip.decompress(
        resources.files("moto.ec2").joinpath("resources/instance_types.json.gz").read_bytes()
    )
)


def test_every_type_and_successor_exists_and_every_gpu_family_has_an_ami() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    accepted = set(model.shape_for("ProductionVariantInstanceType").enum)
    assert set(load_instances()) - accepted == set()

    successors = {one.successor for one in load_instances().values() if one.successor}
    assert [name for name in successors if load_instances()[name].successor] == []
    families = {one.family: one for one in load_instances().values() if one.gpus}
    assert sorted(one for one in families if find_ami(cuda="12.2", family=one) is None) == [
        "p2",
        "p3",
    ]


def test_a_machine_has_what_ec2_says_of_it() -> None:
    by_table = [name for name in load_instances() if name.removeprefix("ml.") in EC2]
    assert len(by_table) > 100
    for name in by_table:
        ec2, ours = EC2[name.removeprefix("ml.")], load_instances()[name]
        gpu = list(ec2.get("GpuInfo", {}).get("Gpus", []))
        assert (ours.vcpus, ours.memory_gib * 1024, ours.burstable, ours.local_nvme_gb) == (
            ec2["VCpuInfo"]["DefaultVCpus"],
            ec2["MemoryInfo"]["SizeInMiB"],
            ec2["BurstablePerformanceSupported"],
            ec2.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        ), name
        assert (ours.gpus, ours.gpu_memory_gib * 1024) == (
            sum(one["Count"] for one in gpu),
            gpu[0]["MemoryInfo"]["SizeInMiB"] if gpu else 0,
        ), name


def test_a_retired_machine_has_what_aws_documents() -> None:
    for name, vcpus, memory_gib, gpus, gpu_memory_gib in [
        ("ml.p2.xlarge", 4, 61, 1, 12),
        ("ml.p2.8xlarge", 32, 488, 8, 12),
        ("ml.p2.16xlarge", 64, 732, 16, 12),
        ("ml.p3.2xlarge", 8, 61, 1, 16),
        ("ml.p3.8xlarge", 32, 244, 4, 16),
        ("ml.p3.16xlarge", 64, 488, 8, 16),
    ]:
        one = load_instances()[name]
        found = (one.vcpus, one.memory_gib, one.gpus, one.gpu_memory_gib)
        assert found == (vcpus, memory_gib, gpus, gpu_memory_gib)


def test_a_driver_carries_its_cuda_and_a_gpu_has_its_oldest() -> None:
    for gpu, oldest, capability in [("K80", None, 3.7), ("T4", None, 7.5), ("L40S", "11.8", 8.9)]:
        facts = [find_gpu_fact(gpu, name) for name in ("oldest_cuda", "compute_capability")]
        assert facts == [oldest, capability]
    for ami, cuda, yes in [
        ("al2-ami-sagemaker-inference-gpu-3-1", "12.4", True),
        ("al2-ami-sagemaker-inference-gpu-3-1", "12.9", True),
        ("al2-ami-sagemaker-inference-gpu-2", "12.9", True),  # mounts the compatibility libraries
        ("al2-ami-sagemaker-inference-gpu-2-1", "12.9", False),
    ]:
        assert can_ami_run_cuda(ami, cuda) is yes
