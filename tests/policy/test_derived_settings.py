"""What the file leaves out fits the instance type, the model and the code; what it says stays."""

from typing import Any

import pytest

from infra.catalog.instances import load_instances
from infra.policy.container import Batching, ContainerSettings, build_variables
from infra.policy.derived_settings import DerivedSettings, derive_settings
from infra.policy.sizing import ModelSizes

WITH_CODE = ModelSizes(model_gib=0.1, has_code=True)
WITHOUT = ModelSizes(model_gib=0.1, has_code=False)


def derived(
    name: str, served: ModelSizes = WITH_CODE, tensorflow: str = "2.20", **written: object
) -> DerivedSettings:
    settings = ContainerSettings.model_validate(written)
    return derive_settings(
        settings, instance=load_instances()[name], served=served, tensorflow=tensorflow
    )


def test_what_the_file_says_stays() -> None:
    written: dict[str, Any] = {
        "tfs_processes": 3,
        "gunicorn_workers": 5,
        "inter_op_threads": 7,
        "wait_time_seconds": 33,
        "gpu_memory_margin": 0.5,
        "onednn": False,
    }
    settings = derived("ml.g4dn.12xlarge", **written).settings
    assert {name: getattr(settings, name) for name in written} == written


def test_a_process_for_each_four_vcpus_or_each_gpu_with_most_of_it() -> None:
    for name, processes in [("ml.c5.large", 1), ("ml.c5.4xlarge", 4), ("ml.c5.9xlarge", 9)]:
        assert derived(name).settings.tfs_processes == processes
    for name, processes in [("ml.g4dn.xlarge", 1), ("ml.g4dn.12xlarge", 4), ("ml.g5.48xlarge", 8)]:
        assert derived(name).settings.tfs_processes == processes
    assert derived("ml.g4dn.12xlarge").settings.gpu_memory_margin == -2.2


def test_processes_take_half_of_the_memory_and_one_loads_a_model_of_unknown_size() -> None:
    large = ModelSizes(model_gib=4.7, has_code=True)
    assert derived("ml.c5.4xlarge", large).settings.tfs_processes == 3
    assert derived("ml.c5.4xlarge", ModelSizes(model_gib=None)).settings.tfs_processes == 1


def test_a_worker_for_each_vcpu_or_as_many_as_the_memory_holds() -> None:
    assert derived("ml.c5.4xlarge").settings.gunicorn_workers == 16
    assert derived("ml.c5.4xlarge", UNKNOWN).settings.gunicorn_workers == 16
    heavy = ModelSizes(model_gib=1.0, has_code=True, measured_worker_gib=4.0)
    assert derived("ml.c5.4xlarge", heavy).settings.gunicorn_workers == 5
    served = ModelSizes(model_gib=1.7, has_code=True, measured_worker_gib=2.0)
    assert derived("ml.c5.4xlarge", served, tfs_processes=8).settings.gunicorn_workers == 6


def test_a_worker_may_be_busy_as_long_as_sagemaker_waits_and_without_code_there_is_none() -> None:
    assert derived("ml.c5.4xlarge").settings.gunicorn_timeout_seconds == 60
    settings = derived("ml.c5.4xlarge", WITHOUT).settings
    assert (settings.gunicorn_workers, settings.gunicorn_timeout_seconds) == (None, None)


def test_processes_share_the_vcpus_that_workers_leave() -> None:
    for served, inter in [(WITH_CODE, 1), (WITHOUT, 4)]:
        settings = derived("ml.c5.4xlarge", served).settings
        assert (settings.inter_op_threads, settings.intra_op_threads) == (inter, 1)
    for name in ["ml.c5.large", "ml.g4dn.12xlarge"]:
        settings = derived(name).settings
        assert (settings.inter_op_threads, settings.intra_op_threads) == (None, None)

    settings = derived("ml.c5.4xlarge", WITHOUT, tfs_processes=8).settings
    assert (settings.inter_op_threads, settings.intra_op_threads) == (2, 1)
    settings = derived("ml.c5.xlarge", WITHOUT, tfs_processes=5).settings
    assert settings.inter_op_threads == 1


def test_batching_is_off_unless_asked_for_and_its_queue_holds_every_worker() -> None:
    assert derived("ml.g4dn.xlarge").settings.batching is None
    settings = derived("ml.c5.4xlarge", batching=Batching(), gunicorn_workers=20).settings
    assert settings.batching == Batching(batch_threads=4, max_enqueued_batches=20)


def test_the_wait_outlasts_the_load_in_the_images_version() -> None:
    for gib, wait in [(5.0, None), (6.0, 103), (20.0, 205)]:
        served = ModelSizes(model_gib=gib, has_code=True)
        assert derived("ml.g5.2xlarge", served).settings.wait_time_seconds == wait
    for gib, tensorflow, wait in [(3.0, "2.20", None), (3.0, "2.19", 102)]:
        served = ModelSizes(model_gib=gib, has_code=True)
        assert derived("ml.g5.2xlarge", served, tensorflow).settings.wait_time_seconds == wait
    served = ModelSizes(model_gib=30.0, has_code=True)
    assert derived("ml.g5.2xlarge", served).settings.wait_time_seconds == 410


def test_in_multi_model_mode_every_model_has_a_process_of_its_own() -> None:
    several = ModelSizes(model_gib=1.0, has_code=True, multi_model=True)
    settings = derived("ml.g4dn.12xlarge", several).settings
    assert (settings.tfs_processes, settings.gpu_memory_margin) == (None, None)


def test_every_choice_says_where_it_comes_from_and_why() -> None:
    choices = derived("ml.g4dn.12xlarge").choices
    assert [choice.name for choice in choices] == list(ContainerSettings.model_fields)
    assert [choice.name for choice in choices if not choice.reason] == []

    found = {
        choice.name: choice.origin for choice in derived("ml.c5.4xlarge", tfs_processes=2).choices
    }
    origins = (found["tfs_processes"], found["gunicorn_workers"], found["onednn"])
    assert origins == ("file", "derived", "image")


@pytest.mark.parametrize(
    ("tensorflow", "switches"),
    [
        ("2.20", {"TF_ENABLE_ONEDNN_OPTS": "0"}),
        ("2.3", {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_DISABLE_MKL": "1"}),
    ],
)
def test_onednn_is_switched_as_the_images_tensorflow_reads_it(
    tensorflow: str, switches: dict[str, str]
) -> None:
    found = build_variables(
        ContainerSettings(onednn=False), default_model="m", tensorflow=tensorflow
    )
    assert {name: value for name, value in found.items() if name.startswith("TF_")} == switches


UNKNOWN = ModelSizes(model_gib=None, has_code=None)
