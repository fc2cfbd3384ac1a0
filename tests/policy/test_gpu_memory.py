"""Every process gets the part of its own GPU that it should have."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given

from infra.catalog.instances import load_instances
from infra.policy.sizing import compute_gpu_share, compute_margin, compute_process_gib
from tests.policy.container_oracle import start

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
