"""A typo in staging.toml stops staging, says everything, stops nobody else, and can be mended."""

import shutil

import pytest

from tests.app.conftest import Project
from tests.checkouts import ROOT, Ran

pytestmark = pytest.mark.long

BROKEN = 'extends = "base"\ncolour = "red"\n[variants.primary]\nmin_instances = "two"\n'
WARNED = "prod.variants.primary.container.gunicorn_timeout_seconds=120"
KEYS = ["variants.primary.min_instances", "colour", "account", "endpoint"]


@pytest.fixture(scope="module")
def broken(project: Project) -> Project:
    folder = project.root / "environments"
    (folder / "staging.toml").write_text(BROKEN)
    (folder / "dev.toml").rename(folder / "x.toml")
    (folder / "x.toml").write_text("not toml at all")
    (folder / "9 lives.toml").write_text('extends = "base"\n')
    return project


def problems(said: str) -> list[str]:
    """Keys of staging's problems, once each: the app says them, and the CLI where selected."""
    lines = [line.strip() for line in said.splitlines()]
    ours = [line for line in lines if line.startswith("environments/staging.toml: ")]
    return list(dict.fromkeys(line.split(": ")[1] for line in ours))


@pytest.fixture(scope="module")
def stopped_and_mended(broken: Project) -> tuple[Ran, Ran]:
    """The second in the cdk.out of the first: the CLI would read the old report again."""
    stopped = broken.cdk("synth", "staging/*")
    shutil.copy(ROOT / "environments" / "staging.toml", broken.root / "environments")
    mended = broken.cdk("synth", "staging/*", "--quiet")
    (broken.root / "environments" / "staging.toml").write_text(BROKEN)
    return stopped, mended


def test_its_own_stack_is_stopped_with_every_problem_until_the_file_is_right(
    stopped_and_mended: tuple[Ran, Ran],
) -> None:
    stopped, _ = stopped_and_mended
    assert (stopped.returncode, problems(stopped.stderr)) == (1, KEYS)
    assert stopped_and_mended[1].returncode == 0


def test_without_a_selector_synth_fails_with_every_problem(broken: Project) -> None:
    """The same holds for a file that is no TOML, and for a name that cannot be one."""
    ran = broken.cdk("synth", "--quiet")
    shown = ran.stderr[ran.stderr.index("ERROR ") :]  # behind what app.py says by itself
    others = [f"environments/{name}: " in shown for name in ("x.toml", "9 lives.toml")]
    assert (ran.returncode, problems(shown), others) == (1, KEYS, [True, True])


def test_no_other_stack_is_stopped_whatever_warnings_it_has(broken: Project) -> None:
    ran = broken.cdk("synth", "prod/*", "--quiet", "-c", WARNED)
    assert (ran.returncode, "WARNING" in ran.stderr) == (0, True)


def test_every_environment_is_listed_and_every_problem_said(broken: Project) -> None:
    ran = broken.cdk("list")
    listed = [line.split(" ")[0] for line in ran.stdout.splitlines()]
    named = [name for name in listed if not name.startswith("refused_")]
    assert named == ["local/endpoint", "prod/endpoint", "staging/endpoint", "x/endpoint"]
    assert problems(ran.stderr) == KEYS
