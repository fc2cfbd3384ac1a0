"""A project with the environment prod, and what is committed of it."""

from pathlib import Path

import pytest

from tests.conftest import VALID
from tests.servable.test_check_against import Commit, git


@pytest.fixture
def prod(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is the working folder, with a valid environments/prod.toml."""
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "prod.toml").write_text(VALID)
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def commit(prod: Path) -> Commit:
    """`commit(text)` writes prod.toml and commits the project."""
    git(prod, "init", "--quiet")

    def write(text: str) -> None:
        (prod / "environments" / "prod.toml").write_text(text)
        git(prod, "add", "--all")
        git(prod, "commit", "--quiet", "--allow-empty", "--message", "what is live")

    return write
