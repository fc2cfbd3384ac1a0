"""Does it fit, how long does it take, what does it cost?"""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given

from infra.catalog.instances import load_instances
from infra.policy import sizing
from infra.policy.derived_settings import (
    STEP_MINUTES_ABOVE,
    STEP_MINUTES_BELOW,
    compute_target_invocations,
)
from infra.policy.sizing import (
    ModelSizes,
    choose_download_timeout,
    choose_startup_timeout,
    compute_gpu_share,
    compute_margin,
    compute_process_gib,
)
from tests.policy.container_oracle import start

C5 = load_instances()["ml.c5.xlarge"]
SMALL = ModelSizes(model_gib=1.0, packed_gib=0.5)


def test_memory_is_servers_workers_and_the_system_as_measured_or_assumed() -> None:
    found = sizing.compute_memory(C5, SMALL, processes=2, workers=4)
    assert found is not None
    assert found.total_gib == pytest.approx(2 * 1.3 + 4 * 0.125 + 0.1 * 8)

    served = ModelSizes(model_gib=1.0, measured_server_gib=2.0, measured_worker_gib=0.5)
    found = sizing.compute_memory(C5, served, processes=1, workers=2)
    assert found is not None
    assert (found.servers_gib, found.workers_gib) == (2.0, 1.0)

    assert ModelSizes(model_gib=None, measured_server_gib=3.0).server_gib == 3.0


def test_of_a_model_of_unknown_size_nothing_is_said() -> None:
    unknown = ModelSizes(model_gib=None)
    said = (
        sizing.compute_memory(C5, unknown, processes=1, workers=1),
        sizing.estimate_download_seconds(unknown),
        sizing.estimate_load_seconds(unknown, processes=1),
        sizing.estimate_start_seconds(unknown, processes=1),
        sizing.compute_disk_gib(unknown),
    )
    assert said == (None, None, None, None, None)


def test_a_start_is_boot_download_and_load_and_the_disk_holds_archive_and_files() -> None:
    assert sizing.estimate_start_seconds(SMALL, processes=2) == pytest.approx(180 + 5 + 10 + 10)
    assert sizing.compute_disk_gib(SMALL) == 1.5
    files = ModelSizes(model_gib=1.0, compressed=False)
    assert (sizing.compute_disk_gib(files), sizing.estimate_download_seconds(files)) == (1.0, 10.0)
    served = ModelSizes(model_gib=2.0)
    assert (sizing.compute_disk_gib(served), sizing.estimate_download_seconds(served)) == (
        4.0,
        40.0,
    )


def test_the_volume_is_local_or_asked_for_or_the_default() -> None:
    for name, volume_gb, gigabytes in [
        ("ml.c5.xlarge", None, 30),
        ("ml.c5.xlarge", 100, 100),
        ("ml.g4dn.xlarge", None, 125),
    ]:
        assert sizing.compute_volume_gib(load_instances()[name], volume_gb) == pytest.approx(
            gigabytes * 1e9 / 2**30
        )


def test_instances_are_traffic_by_what_one_safely_carries_and_at_least_one() -> None:
    for rps, rate, safety, count in [
        (100, 2, 1.0, 50),
        (100, 12, 1.0, 9),
        (100, 12, 0.5, 17),
        (1, 100, 0.5, 1),
        (6, 12, 0.5, 1),
    ]:
        found = sizing.count_instances(rps, max_rps_per_instance=rate, safety_factor=safety)
        assert found == count
    for rate in [0.1, 1.1, 3.3, 7.7]:
        found = sizing.count_instances(rate * 3 * 0.7, max_rps_per_instance=rate, safety_factor=0.7)
        assert found == 3
    assert sizing.count_instances(0, max_rps_per_instance=5, safety_factor=1) == 1


def test_a_month_costs_730_hours() -> None:
    assert sizing.compute_usd_per_month(50, 3.06) == pytest.approx(111_690)


def test_an_update_needs_two_fleets_or_batches_of_whole_instances() -> None:
    for batches, count in [
        (None, 8),
        ((25, 25), 6),
        ((5, 5), 6),
        ((50, 25), 7),
        ((50, 50), 8),
        ((25, 100), 8),
    ]:
        assert sizing.count_update_instances(4, batches=batches) == count
    assert sizing.count_update_instances(1, batches=(20, 20)) == 2
    for fleet, more in [(1, 1), (10, 2), (20, 2), (21, 4), (100, 10)]:
        assert sizing.count_update_instances(fleet, batches=(5, 5)) == fleet + more


def test_timeouts_are_twice_the_estimate_within_what_sagemaker_allows() -> None:
    for gib, download, startup in [(0.1, None, None), (10.0, 420, 120), (500.0, 3600, 3600)]:
        served = ModelSizes(model_gib=gib)
        found = (choose_download_timeout(served), choose_startup_timeout(served, processes=1))
        assert found == (download, startup)


# https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html: a vCPU for each 1,769 MB
def test_a_serverless_container_has_vcpus_by_its_memory_and_no_gpu() -> None:
    for memory_mib, vcpus in [(1024, 1), (3072, 1), (3537, 1), (3538, 2), (6144, 3)]:
        found = sizing.find_machine(None, memory_mib)
        assert (found.vcpus, found.memory_gib) == (vcpus, memory_mib / 1024)

    found = sizing.find_machine(None, 2048)
    assert (found.name, found.gpus, found.local_nvme_gb, found.burstable) == (
        "serverless with 2048 MiB",
        0,
        0,
        False,
    )
    # https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html
    assert (sizing.SERVERLESS_DISK_GB, sizing.SERVERLESS_START_SECONDS) == (5, 180)


def test_a_variant_on_instances_runs_on_its_type_which_must_be_known() -> None:
    assert sizing.find_machine("ml.c5.xlarge", None) is C5
    for instance_type in (None, "ml.unheard-of.xlarge"):
        with pytest.raises(KeyError):
            sizing.find_machine(instance_type, None)


def test_the_target_is_the_measured_rate_times_safety_times_sixty() -> None:
    target = compute_target_invocations(max_rps_per_instance=164, safety_factor=0.5)
    assert target == 4920
    # https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html
    assert (STEP_MINUTES_ABOVE, STEP_MINUTES_BELOW) == (3, 15)


FOUR_GPUS = load_instances()["ml.g4dn.12xlarge"]
ONE_GPU = load_instances()["ml.g4dn.xlarge"]


def test_four_gpus_are_shared_out_by_the_one_with_most_processes() -> None:
    for processes, margin, share in [
        (4, -2.2, 0.8),
        (8, -2.2, 0.4),
        (6, -1.4, 0.4),
        (2, -0.6, 0.8),
    ]:
        assert compute_margin(FOUR_GPUS, processes) == margin
        assert compute_gpu_share(processes, margin) == share
    for processes, margin in [(5, -1.0), (9, -1.4), (10, -1.6667), (11, -1.9333)]:
        assert compute_margin(FOUR_GPUS, processes) == margin


@given(st.integers(2, 64))
def test_no_gpu_gives_away_more_than_its_share(processes: int) -> None:
    share = compute_gpu_share(processes, compute_margin(FOUR_GPUS, processes))
    assert share is not None
    assert share * math.ceil(processes / 4) == pytest.approx(0.8, abs=0.002)


@given(st.integers(1, 16), st.none() | st.floats(-5, 0.9))
def test_a_share_is_the_one_that_the_image_renders(processes: int, margin: float | None) -> None:
    variables = {"SAGEMAKER_TFS_INSTANCE_COUNT": str(processes)}
    if margin is not None:
        variables["SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN"] = str(margin)
    server = start(variables, vcpus=48, gpus=4, has_code=False).model_servers[0]
    flags = [flag for flag in server if flag.startswith("--per_process_gpu_memory_fraction")]
    share = compute_gpu_share(processes, margin)
    rendered = [] if share is None else [f"--per_process_gpu_memory_fraction={share}"]
    assert flags == rendered


def test_processes_of_one_gpu_share_it_as_the_image_does_and_one_has_no_share() -> None:
    for processes, share in [(2, 0.4), (4, 0.2)]:
        margin = compute_margin(ONE_GPU, processes)
        assert (margin, compute_gpu_share(processes, margin)) == (0.2, share)
    assert (compute_margin(ONE_GPU, 1), compute_gpu_share(1, None)) == (None, None)
    assert compute_gpu_share(4, None) == 0.2


# tensorflow/core/common_runtime/gpu/gpu_device.cc, MinSystemMemory: by compute capability, of which
# K80 has 3.7, V100 7.0, T4 7.5, A100 8.0 and H100 9.0; B200's is in no source here.
def test_one_process_leaves_to_the_system_what_tensorflow_leaves() -> None:
    for name, gpu_gib, system_mib in [
        ("ml.p2.xlarge", 12, 500),
        ("ml.p3.2xlarge", 16, 1050),
        ("ml.g4dn.xlarge", 16, 1050),
        ("ml.p4d.24xlarge", 40, 1536),
        ("ml.p5.48xlarge", 80, 1800),
    ]:
        process = compute_process_gib(load_instances()[name], 1, None)
        assert process == pytest.approx(gpu_gib - system_mib / 1024)

    new = load_instances()["ml.p6-b200.48xlarge"]
    assert compute_process_gib(new, 1, None) == pytest.approx(new.gpu_memory_gib - 1800 / 1024)
    assert compute_process_gib(ONE_GPU, 2, None) == pytest.approx(0.4 * 16)
