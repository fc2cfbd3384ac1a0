"""Where the image finds models and code in an archive, what it refuses, and whose folders it loads."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from servable_local.container.gunicorn.app import explain_foreign_access
from servable_tensors.archive import LayoutError, find_code, find_models

Files = Callable[..., Path]


@pytest.fixture
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """files("1/saved_model.pb", …): a new folder with these files."""

    def made(*names: str) -> Path:
        root = tmp_path_factory.mktemp("archive")
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        return root

    return made


def test_a_model_is_named_after_its_folder_and_a_version_is_a_number(files: Files) -> None:
    root = files("1/saved_model.pb", "2/saved_model.pb")
    assert find_models(root) == {"model": {1: root / "1", 2: root / "2"}}
    root = files("a/1/saved_model.pb", "export/b/7/saved_model.pb")
    assert list(find_models(root)) == ["a", "b"]

    root = files("a/0012/saved_model.pb")
    assert find_models(root)["a"] == {12: root / "a/0012"}
    root = files("a/1/saved_model.pb", "a/latest/saved_model.pb")
    assert list(find_models(root)["a"]) == [1]


def test_versions_that_the_image_refuses_or_hangs_on_are_refused(files: Files) -> None:
    with pytest.raises(LayoutError, match="version 0"):
        find_models(files("00/saved_model.pb"), takes_zero=False)
    root = files("0/saved_model.pb")
    assert find_models(root) == {"model": {0: root / "0"}}
    with pytest.raises(LayoutError, match=r"it contains model/saved_model\.pb, readme\.txt"):
        find_models(files("model/saved_model.pb", "readme.txt"))
    # A folder without a SavedModel ends the container; a file of that name is waited for.
    for second in ("a/2/readme.txt", "a/2"):
        with pytest.raises(LayoutError, match=r"a/2 has no saved_model\.pb"):
            find_models(files("a/1/saved_model.pb", second))


def test_each_of_three_names_switches_the_python_side_on(files: Files) -> None:
    root = files("code/inference.py/x")
    code = find_code(root)
    assert code is not None
    assert code.inference == root / "code/inference.py"
    for name in ("code/inference.py", "code/lib/x.py", "code/requirements.txt"):
        assert find_code(files(name)) is not None
    assert find_code(files("1/saved_model.pb", "code/readme.txt")) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    made = tmp_path / "outer" / "model"
    made.mkdir(parents=True)
    return made


def test_folders_that_every_user_can_write_to_are_named_unless_nobody_reaches_them(
    folder: Path,
) -> None:
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
