"""Every derived setting says its value, where it comes from, and why."""

from typing import Any

import pytest

from infra.policy.container import Batching
from infra.policy.derived_settings import DerivedSettings
from infra.policy.sizing import ModelSizes
from tests.policy.test_derived_settings import UNKNOWN, WITH_CODE, WITHOUT, derived


def choice(name: str, derived: DerivedSettings) -> tuple[object, str, str]:
    (row,) = [choice for choice in derived.choices if choice.name == name]
    return row.value, row.origin, row.reason


LARGE = ModelSizes(model_gib=4.7, has_code=True)
SEVERAL = ModelSizes(model_gib=1.0, has_code=True, multi_model=True)


@pytest.mark.parametrize(
    ("name", "machine", "served", "value", "reason"),
    [
        (
            "tfs_processes",
            "c5.4xlarge",
            WITH_CODE,
            4,
            "one for each 4 vCPUs, of which there are 16",
        ),
        ("tfs_processes", "c5.large", WITH_CODE, 1, "one for each 4 vCPUs, of which there are 2"),
        (
            "tfs_processes",
            "c5.4xlarge",
            LARGE,
            3,
            "5.0 GiB each: more would need over half of 32 GiB",
        ),
        (
            "tfs_processes",
            "c5.4xlarge",
            ModelSizes(model_gib=100.0, has_code=True),
            1,
            "100.3 GiB each: more would need over half of 32 GiB",
        ),
        (
            "tfs_processes",
            "c5.4xlarge",
            ModelSizes(model_gib=3.7, has_code=True),  # four of 4 GiB are half of the memory
            4,
            "one for each 4 vCPUs, of which there are 16",
        ),
        (
            "tfs_processes",
            "c5.4xlarge",
            UNKNOWN,
            1,
            "the model's size is unknown: a second copy may not fit",
        ),
        (
            "tfs_processes",
            "g4dn.12xlarge",
            WITH_CODE,
            4,
            "one for each of 4 GPUs: a process uses only its own",
        ),
        (
            "tfs_processes",
            "g4dn.4xlarge",
            WITH_CODE,
            1,
            "one GPU: a second process would halve its memory",
        ),
        (
            "gunicorn_workers",
            "c5.4xlarge",
            WITH_CODE,
            16,
            "one for each of 16 vCPUs, because a handler uses the CPU",
        ),
        (
            "gunicorn_workers",
            "c5.4xlarge",
            ModelSizes(model_gib=0.7, has_code=True, measured_worker_gib=1.6),
            15,  # 28.8 GiB but for four servers of 1 GiB
            "1.6 GiB each: more do not fit next to the models",
        ),
        (
            "gunicorn_workers",
            "c5.4xlarge",
            ModelSizes(model_gib=None, has_code=True, measured_worker_gib=1.8),
            16,  # exactly: 28.8 GiB
            "one for each of 16 vCPUs, because a handler uses the CPU",
        ),
        (
            "gunicorn_workers",
            "c5.4xlarge",
            ModelSizes(model_gib=20.0, has_code=True, measured_worker_gib=40.0),
            1,
            "40 GiB each: more do not fit next to the models",
        ),
        (
            "gunicorn_timeout_seconds",
            "c5.4xlarge",
            WITH_CODE,
            60,
            "InvokeEndpoint fails after 60 s; the image would kill a busy worker after 30",
        ),
        (
            "inter_op_threads",
            "c5.4xlarge",
            WITH_CODE,
            1,
            "4 processes share 16 vCPUs; the workers need the rest",
        ),
        (
            "inter_op_threads",
            "c5.4xlarge",
            WITHOUT,
            4,
            "4 processes share 16 vCPUs; nothing else runs",
        ),
        (
            "intra_op_threads",
            "c5.4xlarge",
            WITHOUT,
            1,
            "parallel between requests, not inside one",
        ),
        (
            "gpu_memory_margin",
            "g4dn.12xlarge",
            WITH_CODE,
            -2.2,
            "the image divides it by all 4 processes: each gets 80% of its GPU",
        ),
        (
            "wait_time_seconds",
            "g5.2xlarge",
            ModelSizes(model_gib=6.0, has_code=True),
            103,
            "loading takes about 30 s; the image actually waits 102",
        ),
    ],
)
def test_a_derived_value_says_why(
    name: str, machine: str, served: ModelSizes, value: object, reason: str
) -> None:
    assert choice(name, derived(f"ml.{machine}", served)) == (value, "derived", reason)


@pytest.mark.parametrize(
    ("name", "machine", "served", "reason"),
    [
        ("omp_threads", "c5.4xlarge", WITH_CODE, "the image's default"),
        (
            "onednn",
            "c5.4xlarge",
            WITH_CODE,
            "TensorFlow decides, because it knows its kernels; measure both",
        ),
        (
            "batching",
            "c5.4xlarge",
            WITH_CODE,
            "off: it rejects requests with more rows than a batch; set max_batch_size",
        ),
        (
            "tfs_processes",
            "c5.4xlarge",
            SEVERAL,
            "multi-model mode starts one for each loaded model",
        ),
        (
            "gunicorn_workers",
            "c5.4xlarge",
            WITHOUT,
            "no effect: without code there is no Gunicorn",
        ),
        (
            "inter_op_threads",
            "c5.xlarge",
            WITHOUT,
            "TensorFlow decides: the only process may use every vCPU",
        ),
        (
            "intra_op_threads",
            "g4dn.12xlarge",
            WITHOUT,
            "TensorFlow decides: the GPU computes",
        ),
        (
            "gpu_memory_margin",
            "g4dn.xlarge",
            WITH_CODE,
            "no effect with one process, which may use the whole GPU",
        ),
        ("gpu_memory_margin", "c5.xlarge", WITH_CODE, "the image's default"),
        (
            "wait_time_seconds",
            "g5.2xlarge",
            UNKNOWN,
            "the image's default 60 s, of which it actually waits 51",
        ),
        (
            "wait_time_seconds",
            "g5.2xlarge",
            ModelSizes(model_gib=5.1, has_code=True),  # 25.5 s, and twice of it is 51
            "the image's default 60 s, of which it actually waits 51",
        ),
    ],
)
def test_a_setting_that_is_left_to_the_image_says_why(
    name: str, machine: str, served: ModelSizes, reason: str
) -> None:
    assert choice(name, derived(f"ml.{machine}", served)) == (None, "image", reason)


def test_what_the_file_says_is_named_as_the_files() -> None:
    written = derived("ml.c5.4xlarge", tfs_processes=2)
    assert choice("tfs_processes", written) == (2, "file", "from the file")

    batching = Batching(batch_threads=3, max_enqueued_batches=9)
    value, origin, _ = choice("batching", derived("ml.c5.4xlarge", batching=batching))
    assert (value, origin) == (batching, "file")


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
    batching = Batching(max_batch_size=5, timeout_micros=7)
    value, origin, reason = choice(
        "batching", derived(f"ml.{machine}", served, batching=batching, **written)
    )
    assert (value, origin) == (
        Batching(
            max_batch_size=5,
            timeout_micros=7,
            batch_threads=threads,
            max_enqueued_batches=queue,
        ),
        "derived",
    )
    assert reason.startswith(f"{threads} batch threads: each process's share")
    assert f"a queue of {queue}:" in reason
