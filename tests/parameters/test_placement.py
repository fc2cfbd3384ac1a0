"""The choices of a placement that are not the container's settings, each with its origin and reason."""

from pathlib import Path

from infra.parameters.placement import Placement, placement
from infra.policy.derived_settings import Choice
from tests.conftest import valid
from tests.preflight.overlay import overlaid

GPU = 'variants.primary.instance_type = "ml.g5.xlarge"\n'


def placed(project: Path, lines: str) -> Placement:
    primary = placement(valid(overlaid(project, lines)).environment, "primary")
    assert primary is not None
    return primary


def test_the_driver_is_derived_for_a_gpu_where_the_file_names_none(project: Path) -> None:
    for lines, value, origin in [
        ("", "al2-ami-sagemaker-inference-gpu-3-1", "derived"),
        ('variants.primary.inference_ami = "al2-ami-1"', "al2-ami-1", "file"),
    ]:
        driver = placed(project, GPU + lines).driver
        assert (driver.value, driver.origin) == (value, origin)
    assert placed(project, "").driver.value is None


def test_a_timeout_has_its_reason_and_waits_for_every_process(project: Path) -> None:
    for lines, value, reason in [
        ("", None, "SageMaker's own is enough for this model"),
        ("variants.primary.startup_timeout_seconds = 900", 900, "from the file"),
    ]:
        timeout = placed(project, lines).timeouts["startup_timeout_seconds"]
        assert (timeout.value, timeout.reason) == (value, reason)
    for processes, seconds in [(1, 120), (2, 240)]:
        size = f'artifact = {{ uri = "s3://models/run/m.tar.gz", sha256 = "{"a" * 64}", size_gib = 12 }}'
        settings = f"variants.primary.container.tfs_processes = {processes}\nmodels.ranker.{size}"
        assert placed(project, settings).timeouts["startup_timeout_seconds"] == Choice(
            "startup_timeout_seconds", seconds, "derived", "twice the estimate"
        )
