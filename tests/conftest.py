"""A project of one's own to break: a folder with environments, a SavedModel and code."""

import gc
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from infra.parameters.loading import Loaded, ValidFile, load

# As in an activated environment, so that messages name `cdk` instead of `npx cdk`.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

# No test is timed: the machine that runs it has other work.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# nohup and a shell's & leave these ignored, and every process that a test starts would inherit it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# Imports make objects that stay: to look for garbage among them is a fifth of a worker's time.
gc.disable()


def pytest_collection_finish() -> None:
    """All that is imported is left out of every later search for garbage."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


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


# Of the slow tests, the longest first: what begins last is then short, and no worker waits for it.
LONGEST = (
    "docs/test_tutorial.py",
    "docs/test_commands.py",
    "demo/test_demo.py",
    "demo/test_faults.py",
    "benchmarks/test_runs.py",
    "wheels/test_new_project.py",
    "deployment/test_deployment.py",
    "deployment/test_sleeping.py",
    "deployment/test_day_two.py",
    "deployment/test_batch.py",
    "pipelines/test_deploy_steps.py",
    "examples/test_own_app.py",
    "servable_local/container/test_observed.py",
    "conformance",
    "servable_local/aws/test_cdk.py",
    "app",
    "servable_local/aws/test_tune_on_endpoints.py",
    "examples/test_articles_code.py",
    "examples/test_articles_deployed.py",
    "deployment/test_production.py",
    "fuzz",
)


# `make test-release` runs these before a release: everything from built wheels, exports of every Keras
# version, SageMaker's SDK, and tests whose subject another slow test deploys, kills or draws from too.
# docs/decisions/0069-what-a-change-waits-for.md has the reasons.
RELEASE = (
    "app/test_broken_environment.py",
    "benchmarks/test_runs.py",
    "constructs/test_own_constructs.py",
    "demo/test_demo.py::test_an_interruption",
    "demo/test_demo.py::test_the_demo_prints_stack_events",
    "demo/test_faults.py",
    "deployment/test_batch.py",
    "deployment/test_day_two.py",
    "deployment/test_deployment.py::test_a_model_package",
    "deployment/test_packed_at_synth.py",
    "deployment/test_production.py",
    "deployment/test_repairs.py",
    "deployment/test_sleeping.py",
    "deployment/test_uncompressed.py",
    "docs/test_accepting_page.py",
    "docs/test_outputs.py::test_a_page_shows_what_the_command_prints[servable rehearse prod --set traffic",
    "docs/test_own_app_page.py",
    "docs/test_readme.py",
    "docs/test_tutorial.py::test_the_section_on_pictures",
    "examples/test_articles_code.py",
    "examples/test_articles_deployed.py",
    "examples/test_own_app.py::test_both",
    "examples/test_own_app.py::test_cdk_diff",
    "examples/test_own_app.py::test_the_example",
    "examples/test_own_app_pipeline.py",
    "exports/",
    "fuzz/",
    "packaging/test_archive_failures.py::test_killed",
    "packaging/test_dependencies.py",
    "pipelines/test_deploy_steps.py",
    "preflight/test_good_exports.py",
    "preflight/test_no_false_alarm.py",
    "servable/batch/test_batch_killed.py",
    "servable/rehearse/test_compare.py::test_ctrl_c",
    "servable/replay/test_replay_command.py",
    "servable/test_load_gate_loadgen.py",
    "servable/test_start.py::test_a_request_that_fits",
    "servable/tune/test_generator.py::test_two_processes",
    "servable/tune/test_local_trials.py",
    "servable/tune/test_locustfile.py",
    "servable/tune/test_search.py::test_in_a_large_space",
    "servable_local/aws/test_adopted_end_to_end.py",
    "servable_local/aws/test_execution_policy.py::test_what_is_live",
    "servable_local/aws/test_lifecycle.py::test_no_process_is_left[15",
    "servable_local/aws/test_lifecycle.py::test_no_process_is_left[9",
    "servable_local/aws/test_real_containers.py::test_the_sdk",
    "servable_local/aws/test_temporary.py::test_a_locustfile_passes_or_fails_the_gate[2000",
    "servable_local/aws/test_tune_on_endpoints.py",
    "servable_local/container/test_browser.py",
    "servable_local/container/test_compiled_packages.py::test_serve_asks",
    "servable_local/container/test_observed.py",
    "setup/",
    "wheels/",
)


# Files whose tests share what the first of them starts: one worker takes all of a group.
SHARING = (
    ("tests/constructs/",),
    ("tests/servable_local/aws/",),
    ("tests/examples/test_every_environment.py", "tests/examples/test_presets.py"),
    # In these TensorFlow is imported into the worker's own process.
    (
        "tests/servable_local/container/",
        "tests/servable_tensors/",
        "tests/examples/test_ranker.py",
        "tests/packaging/test_warm_up.py",
    ),
)


# Of the slow tests only these share enough: a container for each kind of archive.
SLOW_SHARING = (("tests/conformance/",),)


class GroupScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Gives workers whole files, and whole groups of those that share."""

    def _split_scope(self, nodeid: str) -> str:
        sharing = SHARING if self.config.option.markexpr == "not long" else SLOW_SHARING
        group = next((files for files in sharing if nodeid.startswith(files)), None)
        return group[0] if group else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Those with the most tests come first; with --no-loadscope-reorder, as LONGEST orders them."""
    return GroupScheduling(config, log)


_WHOLE_FILE_IS_LONG = re.compile(r"^pytestmark = (?:\[\s*)?pytest\.mark\.long\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only the slow tests are wanted, or none of them, no worker imports the other files."""
    wanted = config.option.markexpr
    if not wanted or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    if wanted == "not long":
        return _WHOLE_FILE_IS_LONG.search(text) is not None or None
    return "mark.long" not in text or None


_RELEASE_IDS = tuple(f"tests/{name}" for name in RELEASE)


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith(_RELEASE_IDS) and item.get_closest_marker("long"):
        item.add_marker("release")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers take files in this order, after pytest-randomly has shuffled them."""
    folder = Path(__file__).parent
    rank = {folder / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, rank.get(item.path.parent, len(rank))))


def pytest_runtest_setup() -> None:
    """boto3's own session keeps the credentials it first found: those of another test's local AWS."""
    if "boto3" in sys.modules:
        vars(sys.modules["boto3"])["DEFAULT_SESSION"] = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """tests/conformance/conftest.py says what they are for."""
    group = parser.getgroup("conformance")
    group.addoption("--base-url", help="An endpoint without code, instead of the double.")
    group.addoption("--code-url", help="An endpoint with the suite's inference.py, likewise.")


_folders = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, which for a new folder looks through all there are, of thousands of tests."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}_{next(_folders)}", numbered=False)


def make_project(folder: Path) -> Path:
    """environments/ (empty), model/1 with a SavedModel, its golden/, and code/inference.py."""
    (folder / "environments").mkdir()
    shutil.copytree(RANKER, folder / "model")
    shutil.copytree(RANKER.parent / "golden", folder / "golden")
    (folder / "code").mkdir()
    (folder / "code" / "inference.py").write_text("def handler(data, context): ...\n")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of the test's own, to break."""
    return make_project(tmp_path)


def valid(loaded: Loaded) -> ValidFile:
    """The file, whose keys a test needs to be valid."""
    assert isinstance(loaded, ValidFile), loaded.findings
    return loaded


# Returns Loaded: a ValidFile, unless the test writes a key that is none.
Environment = Callable[..., Any]


@pytest.fixture
def environment(project: Path) -> Environment:
    """Writes environments/prod.toml and loads it: `environment(text)`, or VALID with replacements."""

    def write(text: str = VALID, **replacements: str) -> Loaded:
        for old, new in replacements.items():
            text = text.replace(old, new)
        (project / "environments" / "prod.toml").write_text(text)
        files = load(project, project / "environments")
        return next(file for file in files if file.name == "prod")

    return write


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root mounts a disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)
