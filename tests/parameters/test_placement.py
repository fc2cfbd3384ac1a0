"""The choices of a placement that are not the container's settings, each with its origin and reason."""

from pathlib import Path
from typing import Any

import pytest

from infra.parameters.loading import load
from infra.parameters.model import compute_model_sizes
from infra.parameters.placement import (
    Placement,
    build_instance_part,
    find_placement,
    list_placements,
    list_variant_placements,
)
from infra.policy.derived_settings import Choice
from infra.policy.sizing import ModelSizes
from tests.conftest import VALID, valid
from tests.preflight.overlay import overlaid

GPU = 'variants.primary.instance_type = "ml.g5.xlarge"\n'


def placed(project: Path, lines: str) -> Placement:
    primary = find_placement(valid(overlaid(project, lines)).environment, "primary")
    assert primary is not None
    return primary


def test_a_driver_and_timeouts_are_derived_where_the_file_names_none(project: Path) -> None:
    for lines, value, origin in [
        ("", "al2-ami-sagemaker-inference-gpu-3-1", "derived"),
        ('variants.primary.inference_ami = "al2-ami-1"', "al2-ami-1", "file"),
    ]:
        driver = placed(project, GPU + lines).driver
        assert (driver.value, driver.origin) == (value, origin)
    assert placed(project, "").driver.value is None
    for lines, value, reason in [
        ("", None, "SageMaker's default is enough for this model"),
        ("variants.primary.startup_timeout_seconds = 900", 900, "from the file"),
    ]:
        timeout = placed(project, lines).timeouts["startup_timeout_seconds"]
        assert (timeout.value, timeout.reason) == (value, reason)
    for processes, seconds in [(1, 120), (2, 240)]:
        size = f'artifact = {{ uri = "s3://models/run/m.tar.gz", sha256 = "{"a" * 64}", size_gib = 12 }}'
        settings = f"variants.primary.container.tfs_processes = {processes}\nmodels.ranker.{size}"
        shown = placed(project, settings).timeouts["startup_timeout_seconds"]
        assert shown == Choice("startup_timeout_seconds", seconds, "derived", "twice the estimate")

    assert placed(project, "variants.primary.start_seconds = 77").start_seconds == 77
    assert (placed(project, "").start_seconds or 0) > 100
    assert placed(project, "variants.primary.volume_gb = 40").volume_gb == 40


def chosen(found: Any) -> tuple[Any, str, str]:
    return found.value, found.origin, found.reason


def test_routing_is_by_kind_unless_the_file_says(project: Path) -> None:
    free = "no request waits behind a slow one while another instance is free"
    queue = "SageMaker's default: instances read requests from the queue"
    cases: list[tuple[str, tuple[str | None, str, str]]] = [
        ("", ("least_outstanding_requests", "derived", free)),
        ('variants.primary.routing = "random"', ("random", "file", "from the file")),
        ("asynchronous = {}", (None, "image", queue)),
    ]
    for lines, routing in cases:
        assert chosen(placed(project, lines).routing) == routing

    lines = 'models.many = { multi_model = ["ranker"] }\nvariants.primary.model = "many"'
    found = placed(project, lines)
    told = (found.routing.value, found.routing.reason)
    assert told == (None, "SageMaker's default: routes to an instance that has loaded the model")
    # The image divides no GPU among processes in this mode, and Gunicorn always runs.
    assert (found.gpus, found.workers > 0) == (0, True)
    gpu = placed(project, f"{lines}\n{GPU}")
    assert (gpu.gpus, gpu.instance.gpus) == (0, 1)
    # Each request names its model.
    default = "SAGEMAKER_TFS_DEFAULT_MODEL_NAME"
    assert default not in found.build_hosting("eu-west-1").variables
    assert placed(project, "").build_hosting("eu-west-1").variables[default] == "ranker"


def test_workers_run_with_code_alone(project: Path) -> None:
    code, container = 'models.ranker.handler = "servable"\n', "variants.primary.container"
    two = f"{container}.gunicorn_workers = 1\n{container}.tfs_processes = 2"
    for lines, workers, processes in [
        ("", 0, 1),
        (f"{code}{container}.gunicorn_workers = 3", 3, 1),
        (f"{code}{two}", 1, 2),
    ]:
        found = placed(project, lines)
        assert (found.workers, found.processes) == (workers, processes)

    for lines in ('variants.primary.instance_type = "ml.c5.huge"', 'variants.primary.model = "x"'):
        environment = valid(overlaid(project, lines)).environment
        assert find_placement(environment, "primary") is None
        assert list_placements(environment) == ()
    kinds = '{ instance_type = "ml.none.xlarge" }, { instance_type = "ml.g5.xlarge" }'
    pools = f"variants.primary.instance_pools = [{kinds}]"
    environment = valid(overlaid(project, pools)).environment
    assert find_placement(environment, "primary") is None
    assert [each.pool for each in list_variant_placements(environment, "primary")] == [1]


def test_the_image_is_the_newest_that_the_type_can_run_or_the_file_s(project: Path) -> None:
    found = placed(project, "")
    assert chosen(found.version) == (found.tensorflow, "file", "from the file")
    (project / "environments" / "prod.toml").unlink()
    newest = placed(project, 'models.ranker.tensorflow = "9.99"').tensorflow
    assert newest >= "2.19"
    derived = valid(overlaid(project, "")).environment
    model = derived.models["ranker"].model_copy(update={"tensorflow": None})
    free = find_placement(derived.model_copy(update={"models": {"ranker": model}}), "primary")
    assert free is not None
    assert chosen(free.version) == (newest, "derived", "the newest image that ml.c5.xlarge can run")


def test_a_key_is_named_in_the_table_that_has_it(project: Path) -> None:
    pools = (
        'variants.primary.instance_pools = [{ instance_type = "ml.g6.xlarge" },'
        ' { instance_type = "ml.g5.xlarge", container = { tfs_processes = 1 } }]'
    )
    first, second = list_variant_placements(valid(overlaid(project, pools)).environment, "primary")
    table = "variants.primary"
    assert [first.pool, second.pool] == [0, 1]
    for own in ("instance_type", "container.tfs_processes"):
        assert second.build_key(own) == f"{table}.instance_pools.1.{own}"
    assert first.build_key("container.tfs_processes") == f"{table}.container.tfs_processes"
    assert second.build_key("container.gunicorn_workers") == f"{table}.container.gunicorn_workers"
    assert second.build_key("weight") == f"{table}.weight"
    assert (second.machine_key, second.host) == (second.build_key("instance_type"), "primary")
    assert placed(project, "").build_key("instance_type") == "variants.primary.instance_type"
    keys = "serverless = { memory_mib = 2048, max_concurrency = 4 }"
    serverless = VALID.replace('instance_type = "ml.c5.xlarge"', keys)
    (project / "environments" / "prod.toml").write_text(serverless)
    (file,) = load(project, project / "environments")
    less = find_placement(valid(file).environment, "primary")
    assert less is not None
    assert (less.machine_key, less.volume_gb, less.start_seconds) == (
        "variants.primary.serverless.memory_mib", 5, None,
    )  # fmt: skip


SHARED = """
[variants.shared]
instance_type = "ml.g4dn.12xlarge"
[variants.shared.components]
a = {{ model = "ranker"{} }}
b = {{ model = "ranker" }}
"""


def components(project: Path, keys: str = "") -> dict[str, Placement]:
    text = VALID[: VALID.index("[variants")] + SHARED.format(keys)
    (project / "environments" / "prod.toml").write_text(text)
    (file,) = load(project, project / "environments")
    found = list_placements(valid(file).environment)
    return {each.name: each for each in found}


def test_components_share_an_instance_in_equal_parts(project: Path) -> None:
    both = components(project)
    assert [*both] == ["a", "b"]
    a = both["a"]
    assert (a.table, a.host, a.parts, a.whole_instance.gpus) == (
        "variants.shared.components", "shared", 2, 4,
    )  # fmt: skip
    assert a.build_key("model") == "variants.shared.components.a.model"
    assert a.build_key("instance_type") == "variants.shared.instance_type"
    # 48 vCPUs without a tenth, halved, in quarters; 4 GPUs and 192 GiB halved.
    assert (a.copy_cpus.value, a.copy_gpus.value) == (21.5, 2)
    assert (a.copy_cpus.origin, a.copy_gpus.origin) == ("derived", "derived")
    assert "equally among components: 2" in a.copy_gpus.reason
    assert (a.instance.vcpus, a.instance.gpus, a.instance.memory_gib) == (21, 2, 96)
    assert a.copy_memory_mib.value >= 1024
    assert a.copy_memory_mib.origin == "derived"


def test_a_component_has_what_its_keys_reserve_or_an_instance_if_it_sleeps(project: Path) -> None:
    a, b = components(project, ", cpus = 8, gpus = 0, memory_mib = 2048").values()
    assert [chosen(each) for each in (a.copy_cpus, a.copy_gpus, a.copy_memory_mib)] == [
        (8, "file", "from the file"),
        (0, "file", "from the file"),
        (2048, "file", "from the file"),
    ]
    assert (a.instance.vcpus, a.instance.gpus, a.instance.gpu) == (8, 0, None)
    assert a.instance.memory_gib == 2
    assert b.instance.gpu is not None
    whole = b.whole_instance
    component = b.variant.component
    assert component is not None
    # One component has all of the instance, and copies of which no two share one.
    alone = build_instance_part(whole, component, 1)
    assert (alone.vcpus, alone.gpus, alone.memory_gib) == (whole.vcpus, 4, whole.memory_gib)
    greedy = component.model_copy(update={"cpus": 0.25, "gpus": 64, "memory_mib": 10_000_000})
    part = build_instance_part(whole, greedy, 2)
    assert (part.vcpus, part.gpus, part.memory_gib) == (1, 4, whole.memory_gib)

    asleep = "variants.primary.sleep_after_minutes = 5"
    cpus = (2.25, "derived", "above half of 4: each copy gets its own instance")
    assert chosen(placed(project, asleep).copy_cpus) == cpus
    stated = f"{asleep}\nvariants.primary.copy_memory_mib = 2000"
    assert placed(project, stated).copy_memory_mib.value == 2000


ARTIFACT = (
    f'models.ranker.artifact = {{ uri = "s3://models/run/m.tar.gz", sha256 = "{"a" * 64}", '
    "size_gib = 2.5, size_bytes = 1073741824 }"
)


def known(project: Path, lines: str = "") -> ModelSizes:
    return compute_model_sizes(valid(overlaid(project, lines)).environment.models, "ranker")


def test_size_memory_and_code_are_the_folders_or_as_the_file_says(project: Path) -> None:
    files = [file for file in (project / "model").rglob("*") if file.is_file()]
    assert known(project).model_gib == sum(file.stat().st_size for file in files) / 2**30
    assert known(project, 'models.ranker.saved_model = "nowhere"').model_gib is None
    found = known(project, ARTIFACT)
    assert (found.model_gib, found.packed_gib, found.has_code) == (2.5, 1.0, None)
    assert known(project, 'models.ranker.compression = "none"').compressed is False

    lines = "models.ranker.server_memory_gib = 3\nmodels.ranker.worker_memory_mib = 512"
    found = known(project, lines)
    assert (found.server_gib, found.worker_gib) == (3, 0.5)
    for lines, code in [
        ("", False),
        ('models.ranker.code = "code"', True),
        ('models.ranker.handler = "servable"', True),
    ]:
        assert known(project, lines).has_code is code


def test_models_of_one_archive_are_loaded_together(project: Path) -> None:
    lines = 'models.ranker.also_serves = ["other"]\nmodels.other.saved_model = "model"'
    alone = known(project).model_gib
    assert alone is not None
    assert known(project, lines).model_gib == pytest.approx(2 * alone)
    lines = 'models.many.multi_model = ["ranker"]\nvariants.primary.model = "many"'
    found = compute_model_sizes(valid(overlaid(project, lines)).environment.models, "many")
    assert (found.model_gib, found.multi_model, found.has_code) == (None, True, True)
