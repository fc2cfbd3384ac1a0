"""Whose folders a container loads models from."""

import os
from pathlib import Path

import pytest

from servable_local.container.gunicorn.app import explain_foreign_access


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    made = tmp_path / "outer" / "model"
    made.mkdir(parents=True)
    return made


def test_folders_and_parents_that_every_user_can_write_to_are_named(folder: Path) -> None:
    assert explain_foreign_access(folder) is None

    folder.chmod(0o755)
    folder.parent.chmod(0o777)
    assert str(explain_foreign_access(folder)).startswith(
        f"{folder.parent}: every user can write to it; "
    )

    folder.chmod(0o755)
    folder.parent.chmod(0o1777)
    assert explain_foreign_access(folder) is None
    folder.chmod(0o1777)
    assert str(explain_foreign_access(folder)).startswith(f"{folder}: every user")


def test_a_folder_for_everybody_is_fine_where_nobody_else_can_reach_it(folder: Path) -> None:
    # pytest's own folder below /tmp is 0700, as what tempfile.mkdtemp makes.
    (folder / "inner").mkdir(mode=0o755)
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    assert explain_foreign_access(folder / "inner") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_parent_of_another_user_is_named(folder: Path) -> None:
    folder.chmod(0o755)
    os.chown(folder.parent, 12345, 12345)
    assert str(explain_foreign_access(folder)).startswith(
        f"{folder.parent}: belongs to another user"
    )
