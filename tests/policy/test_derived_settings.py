"""What the file leaves out fits the type, the model and the code, and says why; what it says stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.catalog.instances import load_instances
from infra.policy.container import Batching, ContainerSettings, build_variables
from infra.policy.derived_settings import DerivedSettings, compute_cooldowns, derive_settings
from infra.policy.sizing import ModelSizes

WITH_CODE = ModelSizes(model_gib=0.1, has_code=True)
WITHOUT = ModelSizes(model_gib=0.1, has_code=False)
UNKNOWN = ModelSizes(model_gib=None, has_code=None)
SEVERAL = ModelSizes(model_gib=1.0, has_code=True, multi_model=True)


def sized(model: float | None, worker: float | None = None) -> ModelSizes:
    return ModelSizes(model_gib=model, has_code=True, measured_worker_gib=worker)


def derived(
    name: str, served: ModelSizes = WITH_CODE, tensorflow: str = "2.20", **written: object
) -> DerivedSettings:
    settings = ContainerSettings.model_validate(written)
    return derive_settings(
        settings, instance=load_instances()[f"ml.{name}"], served=served, tensorflow=tensorflow
    )


def choice(name: str, derived: DerivedSettings) -> tuple[object, str, str]:
    (row,) = [choice for choice in derived.choices if choice.name == name]
    return row.value, row.origin, row.reason


Rows = list[tuple[str, ModelSizes, object, str]]
BY_VCPUS = "one for each 4 vCPUs, of which there are"
BY_WORKER = "one for each of 16 vCPUs, because a handler uses the CPU"
TOO_MANY = "more do not fit next to the models"
HALF = "more would need over half of 32 GiB"
LEFT = "the image's default 60 s, of which it actually waits 51"
TIMEOUT = "InvokeEndpoint fails after 60 s; the image would kill a busy worker after 30"
DIVIDED = "the image divides it by all 4 processes"
ONEDNN = "TensorFlow decides, because it knows its kernels; measure both"
NO_BATCHING = "off: it rejects requests with more rows than a batch; set max_batch_size"
# By setting: type, model, value, and reason; None is left to the image.
DERIVED: dict[str, Rows] = {
    "tfs_processes": [
        ("c5.4xlarge", WITH_CODE, 4, f"{BY_VCPUS} 16"),
        ("c5.large", WITH_CODE, 1, f"{BY_VCPUS} 2"),
        ("c5.4xlarge", sized(4.7), 3, f"5.0 GiB each: {HALF}"),
        ("c5.4xlarge", sized(100.0), 1, f"100.3 GiB each: {HALF}"),
        ("c5.4xlarge", sized(3.7), 4, f"{BY_VCPUS} 16"),  # of 4 GiB: half of the memory
        ("c5.4xlarge", UNKNOWN, 1, "the model's size is unknown: a second copy may not fit"),
        ("g4dn.12xlarge", WITH_CODE, 4, "one for each of 4 GPUs: a process uses only its own"),
        ("g4dn.4xlarge", WITH_CODE, 1, "one GPU: a second process would halve its memory"),
        ("c5.4xlarge", SEVERAL, None, "multi-model mode starts one for each loaded model"),
    ],
    "gunicorn_workers": [
        ("c5.4xlarge", WITH_CODE, 16, BY_WORKER),
        # 28.8 GiB but for four servers of 1 GiB.
        ("c5.4xlarge", sized(0.7, 1.6), 15, f"1.6 GiB each: {TOO_MANY}"),
        ("c5.4xlarge", sized(None, 1.8), 16, BY_WORKER),  # exactly 28.8 GiB
        ("c5.4xlarge", sized(20.0, 40.0), 1, f"40 GiB each: {TOO_MANY}"),
        ("c5.4xlarge", WITHOUT, None, "no effect: without code there is no Gunicorn"),
    ],
    "gunicorn_timeout_seconds": [
        ("c5.4xlarge", WITH_CODE, 60, TIMEOUT),
        ("c5.4xlarge", WITHOUT, None, "the image's default"),
    ],
    "inter_op_threads": [
        ("c5.4xlarge", WITH_CODE, 1, "4 processes share 16 vCPUs; the workers need the rest"),
        ("c5.4xlarge", WITHOUT, 4, "4 processes share 16 vCPUs; nothing else runs"),
        ("c5.xlarge", WITHOUT, None, "TensorFlow decides: the only process may use every vCPU"),
    ],
    "intra_op_threads": [
        ("c5.4xlarge", WITHOUT, 1, "parallel between requests, not inside one"),
        ("g4dn.12xlarge", WITHOUT, None, "TensorFlow decides: the GPU computes"),
    ],
    "gpu_memory_margin": [
        ("g4dn.12xlarge", WITH_CODE, -2.2, f"{DIVIDED}: each gets 80% of its GPU"),
        ("g4dn.xlarge", WITH_CODE, None, "no effect with one process, which may use the whole GPU"),
        ("c5.xlarge", WITH_CODE, None, "the image's default"),
    ],
    "wait_time_seconds": [
        ("g5.2xlarge", sized(6.0), 103, "loading takes about 30 s; the image actually waits 102"),
        ("g5.2xlarge", UNKNOWN, None, LEFT),
        ("g5.2xlarge", sized(5.1), None, LEFT),  # 25.5 s, and twice of it is 51
    ],
    "omp_threads": [("c5.4xlarge", WITH_CODE, None, "the image's default")],
    "onednn": [("c5.4xlarge", WITH_CODE, None, ONEDNN)],
    "batching": [("c5.4xlarge", WITH_CODE, None, NO_BATCHING)],
}


@pytest.mark.parametrize("name", DERIVED)
def test_a_setting_that_the_file_leaves_out_fits_and_says_why(name: str) -> None:
    for machine, served, value, reason in DERIVED[name]:
        origin = "image" if value is None else "derived"
        assert choice(name, derived(machine, served)) == (value, origin, reason)


def test_what_the_file_says_stays_and_is_named_as_the_files() -> None:
    written: dict[str, Any] = {
        "tfs_processes": 3,
        "gunicorn_workers": 5,
        "inter_op_threads": 7,
        "wait_time_seconds": 33,
        "gpu_memory_margin": 0.5,
        "onednn": False,
        "batching": Batching(batch_threads=3, max_enqueued_batches=9),
    }
    found = derived("g4dn.12xlarge", **written)
    for name, value in written.items():
        assert getattr(found.settings, name) == value
        assert choice(name, found)[:2] == (value, "file")
    assert choice("tfs_processes", found)[2] == "from the file"
    assert [choice.name for choice in found.choices] == list(ContainerSettings.model_fields)


def test_what_is_derived_fits_what_the_file_says() -> None:
    assert derived("g4dn.12xlarge", SEVERAL).settings.gpu_memory_margin is None
    assert derived("c5.4xlarge", sized(1.7, 2.0), tfs_processes=8).settings.gunicorn_workers == 6
    for machine, processes, threads in [("c5.4xlarge", 8, (2, 1)), ("c5.xlarge", 5, (1, 1))]:
        settings = derived(machine, WITHOUT, tfs_processes=processes).settings
        assert (settings.inter_op_threads, settings.intra_op_threads) == threads


def test_the_wait_outlasts_the_load_in_the_images_version() -> None:
    for gib, tensorflow, wait in [
        (20.0, "2.20", 205),
        (30.0, "2.20", 410),
        (3.0, "2.20", None),
        (3.0, "2.19", 102),
    ]:
        assert derived("g5.2xlarge", sized(gib), tensorflow).settings.wait_time_seconds == wait


@pytest.mark.parametrize(
    ("machine", "served", "written", "threads", "queue"),
    [
        ("c5.4xlarge", WITH_CODE, {}, 4, 16),
        ("c5.4xlarge", WITHOUT, {}, 4, 16),
        ("c5.4xlarge", SEVERAL, {}, 16, 16),
        ("c5.xlarge", WITH_CODE, {"tfs_processes": 3}, 1, 4),
        ("c5.xlarge", WITH_CODE, {"tfs_processes": 9}, 1, 4),
        ("c5.xlarge", WITH_CODE, {"gunicorn_workers": 7}, 4, 7),
    ],
)
def test_batches_are_computed_on_a_processs_vcpus_and_wait_for_every_worker(
    machine: str, served: ModelSizes, written: dict[str, Any], threads: int, queue: int
) -> None:
    given = {"max_batch_size": 5, "timeout_micros": 7}
    value, origin, reason = choice(
        "batching", derived(machine, served, batching=Batching(**given), **written)
    )
    expected = Batching(**given, batch_threads=threads, max_enqueued_batches=queue)
    assert (value, origin) == (expected, "derived")
    assert reason.startswith(f"{threads} batch threads: each process's share")
    assert f"a queue of {queue}:" in reason


def test_onednn_is_switched_as_the_images_tensorflow_reads_it() -> None:
    off = ContainerSettings(onednn=False)
    for tensorflow, switches in [
        ("2.20", {"TF_ENABLE_ONEDNN_OPTS": "0"}),
        ("2.3", {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_DISABLE_MKL": "1"}),
    ]:
        found = build_variables(off, default_model="m", tensorflow=tensorflow)
        assert {name: each for name, each in found.items() if name.startswith("TF_")} == switches


SECONDS = st.integers(0, 604_800)


@given(SECONDS, SECONDS, st.none() | st.floats(0, 10_000))
def test_what_the_file_says_is_taken(out: int, back: int, start: float | None) -> None:
    found = compute_cooldowns(out_seconds=out, in_seconds=back, start_seconds=start)
    assert (found.out_seconds, found.in_seconds) == (out, back)
    half = compute_cooldowns(out_seconds=out, in_seconds=None, start_seconds=start)
    assert half.in_seconds == 2 * out


@given(st.floats(0.1, 10_000))
def test_an_instance_answers_before_another_is_added_and_goes_half_as_fast(start: float) -> None:
    found = compute_cooldowns(out_seconds=None, in_seconds=None, start_seconds=start)
    assert start <= found.out_seconds < start + 30
    assert found.in_seconds == 2 * found.out_seconds


def test_a_cooldown_says_why_and_of_unknown_size_it_is_application_auto_scalings() -> None:
    found = compute_cooldowns(out_seconds=None, in_seconds=None, start_seconds=None)
    assert (found.out_seconds, found.in_seconds) == (300, 600)
    for out, start, reason in [
        (60, 203.4, "from the file"),
        (None, None, "Application Auto Scaling's default, because the start time is unknown"),
        (None, 203.4, "a new instance responds after about 203 s and relieves others only then"),
    ]:
        found = compute_cooldowns(out_seconds=out, in_seconds=None, start_seconds=start)
        assert found.out_reason == reason
    for back, reason in [
        (60, "from the file"),
        (None, "twice the scale-out cooldown, because one instance too few fails requests"),
    ]:
        found = compute_cooldowns(out_seconds=1, in_seconds=back, start_seconds=None)
        assert found.in_reason == reason
