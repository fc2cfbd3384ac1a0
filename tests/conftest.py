"""A project of one's own to break: a folder with environments, a SavedModel and code."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from infra.parameters.loading import Loaded, load

# No test is timed: the machine that runs it has other work.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

RANKER = Path(__file__).resolve().parents[1] / "examples" / "ranker" / "model"
VALID = """\
account = "111111111111"
region = "eu-west-1"
production = false
[endpoint]
name = "ranker"
[models.ranker]
saved_model = "model"
tensorflow = "2.20"
[variants.primary]
model = "ranker"
instance_type = "ml.c5.xlarge"
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """tests/conformance/conftest.py says what they are for."""
    group = parser.getgroup("conformance")
    group.addoption("--base-url", help="An endpoint without code, in the place of the double.")
    group.addoption("--code-url", help="An endpoint with the suite's inference.py, likewise.")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """environments/ (empty), model/1 with a SavedModel, its golden/, and code/inference.py."""
    (tmp_path / "environments").mkdir()
    shutil.copytree(RANKER, tmp_path / "model")
    shutil.copytree(RANKER.parent / "golden", tmp_path / "golden")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "inference.py").write_text("def handler(data, context): ...\n")
    return tmp_path


Environment = Callable[..., Loaded]


@pytest.fixture
def environment(project: Path) -> Environment:
    """Writes environments/prod.toml and loads it: `environment(text)`, or VALID with replacements."""

    def write(text: str = VALID, **replacements: str) -> Loaded:
        for old, new in replacements.items():
            text = text.replace(old, new)
        (project / "environments" / "prod.toml").write_text(text)
        return next(one for one in load(project, project / "environments") if one.name == "prod")

    return write
