"""The choices of a placement that are not the container's settings, each with its origin and reason."""

from pathlib import Path

import pytest

from infra.parameters.placement import Placement, placement
from infra.policy.derived_settings import Choice
from tests.conftest import valid
from tests.preflight.overlay import overlaid

GPU = 'variants.primary.instance_type = "ml.g5.xlarge"\n'


def placed(project: Path, lines: str) -> Placement:
    primary = placement(valid(overlaid(project, lines)).environment, "primary")
    assert primary is not None
    return primary


@pytest.mark.parametrize(
    ("lines", "value", "origin"),
    [
        ("", "al2-ami-sagemaker-inference-gpu-3-1", "derived"),
        ('variants.primary.inference_ami = "al2-ami-1"', "al2-ami-1", "file"),
    ],
)
def test_the_driver_is_derived_where_the_file_names_none(
    project: Path, lines: str, value: str, origin: str
) -> None:
    driver = placed(project, GPU + lines).driver
    assert (driver.value, driver.origin) == (value, origin)


def test_without_a_gpu_no_driver_is_chosen(project: Path) -> None:
    assert placed(project, "").driver.value is None


@pytest.mark.parametrize(
    ("lines", "value", "reason"),
    [
        ("", None, "SageMaker's own is enough for this model"),
        ("variants.primary.startup_timeout_seconds = 900", 900, "from the file"),
    ],
)
def test_a_timeout_has_its_reason(
    project: Path, lines: str, value: int | None, reason: str
) -> None:
    timeout = placed(project, lines).timeouts["startup_timeout_seconds"]
    assert (timeout.value, timeout.reason) == (value, reason)


@pytest.mark.parametrize(("processes", "seconds"), [(1, 120), (2, 240)])
def test_every_process_loads_before_the_first_answer(
    project: Path, processes: int, seconds: int
) -> None:
    size = (
        f'artifact = {{ uri = "s3://models/run/m.tar.gz", sha256 = "{"a" * 64}", size_gib = 12 }}'
    )
    settings = f"variants.primary.container.tfs_processes = {processes}\nmodels.ranker.{size}"
    assert placed(project, settings).timeouts["startup_timeout_seconds"] == Choice(
        "startup_timeout_seconds", seconds, "derived", "twice the estimate"
    )
