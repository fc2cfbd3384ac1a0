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
from infra.policy.sizing import ModelSizes
from tests.policy.container_oracle import start

C5 = load_instances()["ml.c5.xlarge"]
SMALL = ModelSizes(model_gib=1.0, packed_gib=0.5)


def test_memory_is_servers_workers_and_the_system_as_measured_or_assumed() -> None:
    measured = ModelSizes(model_gib=1.0, measured_server_gib=2.0, measured_worker_gib=0.5)
    need = sizing.compute_memory(C5, SMALL, processes=2, workers=4)
    other = sizing.compute_memory(C5, measured, processes=1, workers=2)
    assert need is not None
    assert other is not None
    assert need.total_gib == pytest.approx(2 * 1.3 + 4 * 0.125 + 0.1 * 8)
    assert (other.servers_gib, other.workers_gib) == (2.0, 1.0)

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
    files = ModelSizes(model_gib=2.0)
    assert (sizing.compute_disk_gib(files), sizing.estimate_download_seconds(files)) == (4.0, 40.0)


def test_the_volume_is_local_or_asked_for_or_the_default() -> None:
    for name, volume_gb, gigabytes in [
        ("ml.c5.xlarge", None, 30),
        ("ml.c5.xlarge", 100, 100),
        ("ml.g4dn.xlarge", None, 125),
    ]:
        found = sizing.compute_volume_gib(load_instances()[name], volume_gb)
        assert found == pytest.approx(gigabytes * 1e9 / 2**30)


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


# https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html: a vCPU for each 1,769 MB
def test_a_serverless_container_has_vcpus_by_its_memory_and_no_gpu() -> None:
    for memory_mib, vcpus in [(1024, 1), (3072, 1), (3537, 1), (3538, 2), (6144, 3)]:
        found = sizing.find_machine(None, memory_mib)
        assert (found.vcpus, found.memory_gib) == (vcpus, memory_mib / 1024)

    found = sizing.find_machine(None, 2048)
    found_facts = (found.name, found.gpus, found.local_nvme_gb, found.burstable)
    assert found_facts == ("serverless with 2048 MiB", 0, 0, False)
    # https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html
    assert (sizing.SERVERLESS_DISK_GB, sizing.SERVERLESS_START_SECONDS) == (5, 180)


def test_a_variant_on_instances_runs_on_its_type_which_must_be_known() -> None:
    assert sizing.find_machine("ml.c5.xlarge", None) is C5
    for instance_type in (None, "ml.unheard-of.xlarge"):
        with pytest.raises(KeyError):
            sizing.find_machine(instance_type, None)


def test_the_target_is_the_measured_rate_times_safety_times_sixty() -> None:
    assert compute_target_invocations(max_rps_per_instance=164, safety_factor=0.5) == 4920
    # https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html
    assert (STEP_MINUTES_ABOVE, STEP_MINUTES_BELOW) == (3, 15)


FOUR_GPUS = load_instances()["ml.g4dn.12xlarge"]
ONE_GPU = load_instances()["ml.g4dn.xlarge"]


def test_four_gpus_are_shared_out_by_the_one_with_most_processes() -> None:
    for count, margin, share in [(4, -2.2, 0.8), (8, -2.2, 0.4), (6, -1.4, 0.4), (2, -0.6, 0.8)]:
        assert sizing.compute_margin(FOUR_GPUS, count) == margin
        assert sizing.compute_gpu_share(count, margin) == share
    for count, margin in [(5, -1.0), (9, -1.4), (10, -1.6667), (11, -1.9333)]:
        assert sizing.compute_margin(FOUR_GPUS, count) == margin


@given(st.integers(2, 64))
def test_no_gpu_gives_away_more_than_its_share(processes: int) -> None:
    share = sizing.compute_gpu_share(processes, sizing.compute_margin(FOUR_GPUS, processes))
    assert share is not None
    assert share * math.ceil(processes / 4) == pytest.approx(0.8, abs=0.002)


@given(st.integers(1, 16), st.none() | st.floats(-5, 0.9))
def test_a_share_is_the_one_that_the_image_renders(processes: int, margin: float | None) -> None:
    variables = {"SAGEMAKER_TFS_INSTANCE_COUNT": str(processes)}
    if margin is not None:
        variables["SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN"] = str(margin)
    server = start(variables, vcpus=48, gpus=4, has_code=False).model_servers[0]
    flags = [flag for flag in server if flag.startswith("--per_process_gpu_memory_fraction")]
    share = sizing.compute_gpu_share(processes, margin)
    rendered = [] if share is None else [f"--per_process_gpu_memory_fraction={share}"]
    assert flags == rendered


def test_processes_of_one_gpu_share_it_as_the_image_does_and_one_has_no_share() -> None:
    for processes, share in [(2, 0.4), (4, 0.2)]:
        margin = sizing.compute_margin(ONE_GPU, processes)
        assert (margin, sizing.compute_gpu_share(processes, margin)) == (0.2, share)
    assert (sizing.compute_margin(ONE_GPU, 1), sizing.compute_gpu_share(1, None)) == (None, None)
    assert sizing.compute_gpu_share(4, None) == 0.2


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
        process = sizing.compute_process_gib(load_instances()[name], 1, None)
        assert process == pytest.approx(gpu_gib - system_mib / 1024)

    new = load_instances()["ml.p6-b200.48xlarge"]
    assert sizing.compute_process_gib(new, 1, None) == pytest.approx(
        new.gpu_memory_gib - 1800 / 1024
    )
    assert sizing.compute_process_gib(ONE_GPU, 2, None) == pytest.approx(0.4 * 16)


VERSIONS = ["2.19", "2.20"]
# And those at which a retry more fits in.
SECONDS = (
    *range(1, 3601),
    *range(3601, 86_401, 100),
    *(2**power // 10 + more for power in range(15, 20) for more in (0, 1, 2)),
)


def test_the_default_is_the_images() -> None:
    for tensorflow, processes, real in [
        ("2.20", 1, 51.0),
        ("2.20", 4, 51.0),
        ("2.19", 1, 25.4),
        ("2.19", 4, 6.2),
    ]:
        configured = sizing.find_default_wait(tensorflow, processes=processes)
        assert sizing.find_real_wait(configured, tensorflow) == real


def waited_seconds(configured_seconds: int, tensorflow: str) -> float:
    """The image's rule, written out: the pauses of the retries that fit into the configured time.

    The first retry comes at once.
    """
    retries = waited = 0
    if tensorflow == "2.20":
        while (2 ** (retries + 1) - 1) <= 10 * configured_seconds:
            retries += 1
    else:
        retries = 1
        while waited < 10 * configured_seconds:
            retries += 1
            waited += 2 ** (retries + 1)
    return round(sum(min(0.1 * float(2**n), 120.0) for n in range(1, retries)), 1)


def test_the_table_is_the_images_rule_and_changes_at_its_seconds() -> None:
    for configured, real in [(3, 1.4), (51, 25.4), (60, 51.0), (325, 204.6)]:
        assert sizing.find_real_wait(configured, "2.20") == real
    for tensorflow in VERSIONS:
        for seconds in SECONDS:
            real = sizing.find_real_wait(seconds, tensorflow)
            assert real == waited_seconds(seconds, tensorflow), seconds


def test_a_load_as_long_as_the_image_waits_needs_no_more_and_a_longer_one_a_day() -> None:
    for tensorflow in VERSIONS:
        for configured in [1, 3, 13, 100, 5000, 52_429]:
            load = sizing.find_real_wait(configured, tensorflow)
            smallest = sizing.find_wait_setting(load, tensorflow)
            assert smallest <= configured
            assert sizing.find_real_wait(smallest, tensorflow) == load
    assert sizing.find_wait_setting(5000, "2.20") == 24 * 60 * 60


@given(st.floats(0, 1044), st.sampled_from(VERSIONS))
def test_what_is_configured_for_a_load_really_waits_for_it(load: float, tensorflow: str) -> None:
    configured = sizing.find_wait_setting(load, tensorflow)
    assert sizing.find_real_wait(configured, tensorflow) >= load
    assert configured == 1 or sizing.find_real_wait(configured - 1, tensorflow) < load


# 0.2 GiB are loaded in a second, and 0.1 downloaded (assumptions of infra/policy/sizing.py); SageMaker
# takes 60 to 3600 s, and waits for 60 s by default.
def test_timeouts_are_twice_the_load_or_download_in_whole_minutes() -> None:
    for gib, processes, timeout in [
        (0.1, 1, None),
        (6.0, 1, None),
        (3.0, 2, None),
        (6.01, 1, 120),
        (10.0, 1, 120),
        (12.0, 1, 120),
        (12.01, 1, 180),
        (6.01, 2, 180),
        (350.0, 1, 3540),
        (354.01, 1, 3600),
        (500.0, 1, 3600),
        (None, 1, None),
    ]:
        served = ModelSizes(model_gib=gib)
        assert sizing.choose_startup_timeout(served, processes=processes) == timeout
    for gib, timeout in [(3.0, None), (3.01, 120), (6.01, 180), (179.9, 3600), (None, None)]:
        served = ModelSizes(model_gib=gib, compressed=False)
        assert sizing.choose_download_timeout(served) == timeout
    for gib, timeout in [(0.1, None), (10.0, 420), (500.0, 3600)]:
        assert sizing.choose_download_timeout(ModelSizes(model_gib=gib)) == timeout
