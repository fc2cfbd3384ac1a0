"""Typed settings become the image's variables, and the narrowest queue is the limit of waiting requests."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from infra.policy.container import SETTINGS as KEY_OF
from infra.policy.container import (
    Batching,
    ContainerSettings,
    build_variables,
    explain_inert_variable,
    find_setting,
    find_variable,
    find_worker_class,
)
from infra.policy.derived_settings import compute_queue_limit
from servable_handler.settings import Settings, read_settings
from servable_local.container.settings import KEYS
from tests.parameters.test_container_environment import VALUES
from tests.policy.container_oracle import start

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = re.compile(
    r"SAGEMAKER_(TFS|GUNICORN|NGINX|MULTI_MODEL|BIND|SAFE)|OMP_NUM|TF_ENABLE|TF_DISABLE"
)


@given(VALUES)
def test_each_stated_setting_is_written_to_the_variable_of_its_key_as_the_handler_reads_it(
    values: dict[str, Any],
) -> None:
    settings = ContainerSettings.model_validate(values)
    stated = settings.model_dump(exclude_none=True)
    batching = stated.pop("batching", None)
    keys = {
        *stated,
        *(["batching"] if batching else []),
        *(f"batching.{key}" for key in batching or ()),
    }
    written = build_variables(settings, default_model=None)
    assert {find_setting(variable) for variable in written} == keys
    assert read_settings(written) == Settings(
        settings.transport or "auto",
        settings.grpc_from_bytes,
        bool(settings.timing_header),
        settings.request_timeout_seconds,
    )


def test_variables_are_sorted_and_settings_left_out_have_the_images_defaults() -> None:
    rendered = build_variables(ContainerSettings(), default_model="ranker")
    assert rendered == {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker"}
    found = build_variables(ContainerSettings(onednn=True, tfs_processes=2), default_model="m")
    assert list(found) == sorted(found)
    variables = {"SAGEMAKER_TFS_ENABLE_BATCHING": "true"}
    written = build_variables(ContainerSettings(batching=Batching()), default_model=None)
    assert written.items() >= variables.items()
    image = start(variables, vcpus=4, gpus=0, has_code=False).batching
    assert image is not None
    assert Batching() == Batching(
        max_batch_size=image["max_batch_size"], timeout_micros=image["batch_timeout_micros"]
    )


def test_a_setting_has_the_bounds_of_its_variable() -> None:
    cases: list[tuple[str, object, object]] = [
        ("tfs_processes", 1, 0),
        ("tfs_processes", 1_000_000, 1_000_001),
        ("grpc_from_bytes", 0, -1),
        ("gunicorn_workers", 1_000_000, 1_000_001),
        ("gunicorn_workers", 0, -1),
        ("omp_threads", 0, -1),
        ("gpu_memory_margin", 2.0, float("-inf")),
        ("batching", {"timeout_micros": 0}, {"timeout_micros": -1}),
        ("batching", {"max_batch_size": 0}, {"max_batch_size": -1}),
    ]
    for field, allowed, refused in cases:
        assert ContainerSettings.model_validate({field: allowed})
        with pytest.raises(ValueError, match=field):
            ContainerSettings.model_validate({field: refused})


def test_a_variable_is_written_by_one_setting_which_the_local_container_has_too() -> None:
    assert [KEY_OF[str(find_variable(name))] for name in KEY_OF.values()] == [*KEY_OF.values()]
    assert (find_variable("instance_type"), find_setting("MY_OWN")) == (None, None)
    assert KEYS == KEY_OF


# serve.py of the image: up to 2.19 multi-model mode starts Gunicorn with gthread.
def test_workers_are_of_the_class_that_the_image_starts() -> None:
    for written, tensorflow, multi_model, worker_class in [
        (None, "2.20", False, "gevent"),
        (None, "2.20", True, "gevent"),
        (None, "2.19", False, "gevent"),
        (None, "2.19", True, "gthread"),
        ("sync", "2.19", True, "gthread"),
        ("sync", "2.19", False, "sync"),
        ("sync", "2.20", True, "sync"),
    ]:
        settings = ContainerSettings.model_validate({"gunicorn_worker_class": written})
        assert find_worker_class(settings, tensorflow, multi_model=multi_model) == worker_class


UNREAD = "TensorFlow 2.20 does not read it"


def test_a_variable_without_effect_has_the_reason() -> None:
    for variable, tensorflow, reason in [
        ("TF_DISABLE_MKL", "2.20", f"{UNREAD}; use the key onednn"),
        ("TF_DISABLE_POOL_ALLOCATOR", "2.20", f"{UNREAD}, and has no switch for it"),
        ("KMP_AFFINITY", "2.20", "TensorFlow 2.20 has no OpenMP"),
        ("KMP_AFFINITY", "2.3", None),
        ("TF_DISABLE_MKL", "2.3", None),
        ("PYTHONPATH", "2.20", "the image overwrites it; put modules into the code folder"),
        ("MY_OWN", "2.20", None),
    ]:
        assert explain_inert_variable(variable, tensorflow=tensorflow) == reason


def test_container_variables_are_named_in_three_places_only() -> None:
    allowed = (
        "infra/policy/container.py",
        "packages/servable-runtime/servable_handler/",
        "packages/servable-local/servable_local/container/",
        "model_packaging/code_faults/",  # what code may read there
        "tests/",
    )
    folders = ["examples", "infra", "model_packaging", "scripts", "servable", "packages", "stacks"]
    named = [
        file.relative_to(ROOT).as_posix()
        for folder in folders
        for file in sorted((ROOT / folder).rglob("*.py"))
        if VARIABLE.search(file.read_text(encoding="utf-8"))
    ]
    assert [name for name in named if not name.startswith(allowed)] == []


BATCHING = Batching(max_batch_size=64, max_enqueued_batches=4)


def limit(workers: int, rows: int = 1, vcpus: int = 4, **settings: Any) -> int:
    found = ContainerSettings.model_validate(settings)
    return compute_queue_limit(found, vcpus=vcpus, workers=workers, processes=2, rows=rows)


def test_nginx_and_gunicorn_take_as_many_as_their_connections_and_backlog() -> None:
    assert limit(workers=0) == 4 * 1024
    assert limit(workers=1) == 1000 + 2048
    assert limit(workers=4, gunicorn_worker_class="sync") == 4 + 2048
    assert limit(workers=100) == 4 * 1024


def test_batches_that_may_wait_hold_whole_requests_and_sync_workers_do_not_fill_them() -> None:
    for rows, waiting in [(1, 2 * 4 * 64), (32, 2 * 4 * 2), (64, 8), (65, 8)]:
        assert limit(workers=0, rows=rows, batching=BATCHING) == waiting
    assert limit(workers=8, rows=64, batching=BATCHING, gunicorn_worker_class="sync") == 8 + 2048


def test_the_narrowest_part_rejects_and_a_queue_that_is_never_full_does_not() -> None:
    assert limit(3) == 4096
    assert limit(1023, vcpus=3, gunicorn_worker_class="sync") == 1023 + 2048
    assert limit(1024, vcpus=3, gunicorn_worker_class="sync") == 3072  # at both
    assert limit(1, batching=BATCHING) == 512
    assert limit(0, batching=Batching(max_batch_size=64)) == 4096
    for enqueued, waiting in [(2047, 4094), (2048, 4096), (3000, 4096)]:
        batching = Batching(max_batch_size=1, max_enqueued_batches=enqueued)
        assert limit(0, batching=batching) == waiting
