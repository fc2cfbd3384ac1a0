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


# Of `make test-long`, the longest first: what begins last is then short, and no worker waits for it.
LONGEST = (
    "demo/test_demo.py",
    "docs/test_tutorial.py",
    "servable_handler/test_fuzz.py",
    "demo/test_demo_faults.py",
    "pipelines/test_deploy_steps.py",
    "fuzz/test_bodies.py",
    "wheels/test_new_project.py",
    "deployment/test_failed_update.py",
    "servable_local/aws/test_tune_on_endpoints.py",
    "deployment/test_day_two.py",
    "fuzz/test_http2_answers.py",
    "constructs/test_any_combination.py",
    "fuzz/test_client_answers.py",
    "examples/test_articles_deployed.py",
    "deployment/test_production.py",
    "servable_local/aws/test_ctrl_c.py",
    "servable_local/container/test_observed.py",
    "servable_client/test_chaos.py",
    "wheels/test_environments.py",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only the slow tests are wanted, no other file is imported: by every worker."""
    if config.option.markexpr != "long" or collection_path.suffix != ".py":
        return None
    return "mark.long" not in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers take files in this order, after pytest-randomly has shuffled them."""
    folder = Path(__file__).parent
    rank = {folder / file: number for number, file in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


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
