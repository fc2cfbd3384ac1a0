"""Typed settings become the image's variables, and those become the settings again."""

import re
import string
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from infra.policy.container import (
    Batching,
    ContainerSettings,
    VariableError,
    settings_of,
    variables_of,
)
from servable_handler.settings import Settings, read_settings

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
NAMES = st.text(string.ascii_letters + string.digits, min_size=1, max_size=63)


@given(SETTINGS, NAMES)
def test_reading_back_is_the_inverse_of_rendering(settings: ContainerSettings, model: str) -> None:
    assert settings_of(variables_of(settings, default_model=model)) == settings


def test_settings_left_out_render_only_the_default_model() -> None:
    rendered = variables_of(ContainerSettings(), default_model="ranker")
    assert rendered == {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "0", "a whole number from 1 up"),
        ("SAGEMAKER_GUNICORN_WORKERS", "two", "a whole number from 1 up"),
        ("SAGEMAKER_TFS_ENABLE_BATCHING", "1", "true or false"),
        ("SAGEMAKER_GUNICORN_WORKER_CLASS", "gvent", "sync, gevent, gthread, eventlet, tornado"),
        ("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", "1", "a number below 1"),
        ("SERVABLE_TRANSPORT", "http", "auto, rest, grpc"),
        ("SERVABLE_GRPC_FROM_BYTES", "-1", "a whole number from 0 up"),
        ("SERVABLE_TIMING_HEADER", "yes", "0 or 1"),
    ],
)
def test_a_variable_the_image_refuses_names_what_it_takes(
    variable: str, text: str, allowed: str
) -> None:
    with pytest.raises(VariableError) as raised:
        settings_of({variable: text})
    assert str(raised.value) == f"{variable}: {text!r} is not accepted; allowed: {allowed}"


def test_zero_op_threads_are_left_to_tensorflow() -> None:
    read = settings_of({"SAGEMAKER_TFS_INTER_OP_PARALLELISM": "0"})
    assert read.inter_op_threads is None


@given(SETTINGS)
def test_the_handler_reads_what_is_rendered(settings: ContainerSettings) -> None:
    read = read_settings(variables_of(settings, default_model="m"))
    assert read == Settings(
        settings.transport or "auto",
        settings.grpc_from_bytes,
        bool(settings.timing_header),
        settings.request_timeout_seconds,
    )


def test_container_variables_are_named_in_three_places_only() -> None:
    allowed = (
        "infra/policy/container.py",
        "servable_handler/",
        "servable/conformance/",  # asks a container that it did not start with these settings
        "servable_local/container/",
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
            "servable_client",
            "servable_local",
            "servable_tensors",
            "stacks",
        )
        for file in sorted((ROOT / folder).rglob("*.py"))
        if VARIABLE.search(file.read_text(encoding="utf-8"))
    ]
    assert [name for name in named if not name.startswith(allowed)] == []
