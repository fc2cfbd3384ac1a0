"""Typed settings become the image's variables."""

import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from infra.policy.container import (
    SETTINGS as KEY_OF,
)
from infra.policy.container import (
    Batching,
    ContainerSettings,
    build_variables,
    explain_inert_variable,
    find_setting,
    find_variable,
    find_worker_class,
)
from servable_handler.settings import Settings, read_settings
from tests.policy.container_oracle import start

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = re.compile(
    r"SAGEMAKER_(TFS|GUNICORN|NGINX|MULTI_MODEL|BIND|SAFE)|OMP_NUM|TF_ENABLE|TF_DISABLE"
)
COUNTS = st.one_of(st.none(), st.integers(min_value=1, max_value=10_000))
SETTINGS = st.builds(
    ContainerSettings,
    tfs_processes=COUNTS,
    inter_op_threads=COUNTS,
    intra_op_threads=COUNTS,
    wait_time_seconds=COUNTS,
    gpu_memory_margin=st.one_of(
        st.none(), st.floats(max_value=0.99, allow_nan=False, allow_infinity=False)
    ),
    gunicorn_workers=COUNTS,
    gunicorn_threads=COUNTS,
    gunicorn_worker_class=st.sampled_from([None, "sync", "gevent", "gthread"]),
    gunicorn_timeout_seconds=COUNTS,
    gunicorn_log_level=st.sampled_from([None, "debug", "info"]),
    nginx_read_timeout_seconds=COUNTS,
    nginx_log_level=st.sampled_from([None, "debug", "warn"]),
    omp_threads=COUNTS,
    onednn=st.sampled_from([None, True, False]),
    transport=st.sampled_from([None, "auto", "rest", "grpc"]),
    grpc_from_bytes=st.one_of(st.none(), st.integers(0, 1 << 40)),
    request_timeout_seconds=COUNTS,
    timing_header=st.sampled_from([None, True, False]),
    batching=st.one_of(
        st.none(),
        st.builds(
            Batching,
            max_batch_size=st.integers(1, 100_000),
            timeout_micros=st.integers(0, 1_000_000),
            batch_threads=COUNTS,
            max_enqueued_batches=COUNTS,
        ),
    ),
)


@given(SETTINGS)
def test_each_stated_setting_is_written_to_the_variable_of_its_key(
    settings: ContainerSettings,
) -> None:
    stated = settings.model_dump(exclude_none=True)
    batching = stated.pop("batching", None)
    keys = {
        *stated,
        *(["batching"] if batching else []),
        *(f"batching.{key}" for key in batching or ()),
    }
    written = build_variables(settings, default_model=None)
    assert {find_setting(variable) for variable in written} == keys


def test_settings_left_out_have_the_images_defaults() -> None:
    rendered = build_variables(ContainerSettings(), default_model="ranker")
    assert rendered == {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}

    variables = {"SAGEMAKER_TFS_ENABLE_BATCHING": "true"}
    image = start(variables, vcpus=4, gpus=0, has_code=False).batching
    assert image is not None
    assert Batching() == Batching(
        max_batch_size=image["max_batch_size"], timeout_micros=image["batch_timeout_micros"]
    )


@pytest.mark.parametrize(
    ("field", "allowed", "refused"),
    [
        ("tfs_processes", 1, 0),
        ("tfs_processes", 1_000_000, 1_000_001),
        ("grpc_from_bytes", 0, -1),
        ("gunicorn_workers", 1_000_000, 1_000_001),
        ("gunicorn_workers", 0, -1),
        ("omp_threads", 0, -1),
        ("gpu_memory_margin", 2.0, float("-inf")),
        ("batching", {"timeout_micros": 0}, {"timeout_micros": -1}),
        ("batching", {"max_batch_size": 0}, {"max_batch_size": -1}),
    ],
)
def test_a_setting_has_the_bounds_of_its_variable(
    field: str, allowed: object, refused: object
) -> None:
    assert ContainerSettings.model_validate({field: allowed})
    with pytest.raises(ValueError, match=field):
        ContainerSettings.model_validate({field: refused})


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("SAGEMAKER_GUNICORN_WORKERS", "gunicorn_workers"),
        ("SAGEMAKER_TFS_ENABLE_BATCHING", "batching"),
        ("SAGEMAKER_TFS_MAX_BATCH_SIZE", "batching.max_batch_size"),
        ("MY_OWN", None),
    ],
)
def test_a_variable_is_written_by_one_setting(variable: str, setting: str | None) -> None:
    assert find_setting(variable) == setting


def test_a_setting_names_the_variable_that_it_writes() -> None:
    assert [KEY_OF[str(find_variable(name))] for name in KEY_OF.values()] == [*KEY_OF.values()]
    assert find_variable("instance_type") is None


# serve.py of the image: up to 2.19 multi-model mode starts Gunicorn with gthread.
@pytest.mark.parametrize(
    ("written", "tensorflow", "multi_model", "worker_class"),
    [
        (None, "2.20", False, "gevent"),
        (None, "2.20", True, "gevent"),
        (None, "2.19", False, "gevent"),
        (None, "2.19", True, "gthread"),
        ("sync", "2.19", True, "gthread"),
        ("sync", "2.19", False, "sync"),
        ("sync", "2.20", True, "sync"),
    ],
)
def test_workers_are_of_the_class_that_the_image_starts(
    written: str | None, tensorflow: str, multi_model: bool, worker_class: str
) -> None:
    settings = ContainerSettings.model_validate({"gunicorn_worker_class": written})
    assert find_worker_class(settings, tensorflow, multi_model=multi_model) == worker_class


@pytest.mark.parametrize(
    ("variable", "tensorflow", "reason"),
    [
        ("TF_DISABLE_MKL", "2.20", "TensorFlow 2.20 does not read it; use the key onednn"),
        (
            "TF_DISABLE_POOL_ALLOCATOR",
            "2.20",
            "TensorFlow 2.20 does not read it, and has no switch for it",
        ),
        ("KMP_AFFINITY", "2.20", "TensorFlow 2.20 has no OpenMP"),
        ("KMP_AFFINITY", "2.3", None),
        ("TF_DISABLE_MKL", "2.3", None),
        ("PYTHONPATH", "2.20", "the image overwrites it; put modules into the code folder"),
        ("MY_OWN", "2.20", None),
    ],
)
def test_a_variable_without_effect_has_the_reason(
    variable: str, tensorflow: str, reason: str | None
) -> None:
    assert explain_inert_variable(variable, tensorflow=tensorflow) == reason


def test_variables_are_sorted_and_an_unknown_version_is_taken_for_the_newest() -> None:
    assert "TF_DISABLE_MKL" not in build_variables(
        ContainerSettings(onednn=False), default_model="m"
    )
    names = list(
        build_variables(ContainerSettings(onednn=True, tfs_processes=2), default_model="m")
    )
    assert names == sorted(names)


@given(SETTINGS)
def test_the_handler_reads_what_is_rendered(settings: ContainerSettings) -> None:
    read = read_settings(build_variables(settings, default_model="m"))
    assert read == Settings(
        settings.transport or "auto",
        settings.grpc_from_bytes,
        bool(settings.timing_header),
        settings.request_timeout_seconds,
    )


def test_container_variables_are_named_in_three_places_only() -> None:
    allowed = (
        "infra/policy/container.py",
        "packages/servable-runtime/servable_handler/",
        "packages/servable-local/servable_local/container/",
        "model_packaging/code_faults/",  # what code may read there
        "tests/",
    )
    named = [
        file.relative_to(ROOT).as_posix()
        for folder in (
            "examples",
            "infra",
            "model_packaging",
            "scripts",
            "servable",
            "packages",
            "stacks",
        )
        for file in sorted((ROOT / folder).rglob("*.py"))
        if VARIABLE.search(file.read_text(encoding="utf-8"))
    ]
    assert [name for name in named if not name.startswith(allowed)] == []
