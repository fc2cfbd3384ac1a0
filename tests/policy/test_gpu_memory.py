"""Every process gets the part of its own GPU that it should have."""

import pytest

from infra.catalog.instances import instances
from infra.policy.gpu_memory import margin_for, process_gib, share_of_gpu
from tests.policy.container_oracle import start

FOUR_GPUS = instances()["ml.g4dn.12xlarge"]
ONE_GPU = instances()["ml.g4dn.xlarge"]


@pytest.mark.parametrize(
    ("processes", "margin", "share"),
    [(4, -2.2, 0.8), (8, -2.2, 0.4), (6, -1.4, 0.4), (2, -0.6, 0.8)],
)
def test_four_gpus_are_shared_out_in_whole(processes: int, margin: float, share: float) -> None:
    assert margin_for(FOUR_GPUS, processes) == margin
    assert share_of_gpu(processes, margin) == share


def test_without_a_margin_four_processes_get_a_fifth_of_their_own_gpu() -> None:
    assert share_of_gpu(4, None) == 0.2


@pytest.mark.parametrize(("processes", "share"), [(2, 0.4), (4, 0.2)])
def test_processes_of_one_gpu_share_it_as_the_image_does(processes: int, share: float) -> None:
    margin = margin_for(ONE_GPU, processes)
    assert (margin, share_of_gpu(processes, margin)) == (0.2, share)


def test_one_process_is_given_no_share() -> None:
    assert (margin_for(ONE_GPU, 1), share_of_gpu(1, None)) == (None, None)


def test_one_process_leaves_to_the_system_what_tensorflow_leaves() -> None:
    assert process_gib(ONE_GPU, 1, None) == pytest.approx(16 - 1050 / 1024)


def test_the_flag_that_the_container_renders_is_the_share_that_was_meant() -> None:
    variables = {
        "SAGEMAKER_TFS_INSTANCE_COUNT": "4",
        "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN": str(margin_for(FOUR_GPUS, 4)),
    }
    started = start(variables, vcpus=48, gpus=4, has_code=False)
    assert "--per_process_gpu_memory_fraction=0.8" in started.model_servers[0]
