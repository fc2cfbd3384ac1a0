"""What the file and the disk say of a model's size."""

from pathlib import Path

import pytest

from infra.parameters.model import compute_model_sizes
from infra.policy.sizing import ModelSizes
from tests.conftest import valid
from tests.preflight.overlay import overlaid

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

    lines = """
models.many.multi_model = ["ranker"]
variants.primary.model = "many"
"""
    found = compute_model_sizes(valid(overlaid(project, lines)).environment.models, "many")
    assert (found.model_gib, found.multi_model, found.has_code) == (None, True, True)
