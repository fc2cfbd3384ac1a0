"""Where the image finds models and code in an archive, and what it refuses or hangs on."""

from collections.abc import Callable
from pathlib import Path

import pytest

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


def test_a_model_is_named_after_the_folder_of_its_versions(files: Files) -> None:
    root = files("1/saved_model.pb", "2/saved_model.pb")
    assert find_models(root) == {"model": {1: root / "1", 2: root / "2"}}
    root = files("a/1/saved_model.pb", "export/b/7/saved_model.pb")
    assert list(find_models(root)) == ["a", "b"]


def test_a_version_is_a_number_without_its_leading_zeros(files: Files) -> None:
    root = files("a/0012/saved_model.pb")
    assert find_models(root)["a"] == {12: root / "a/0012"}
    root = files("a/1/saved_model.pb", "a/latest/saved_model.pb")
    assert list(find_models(root)["a"]) == [1]


def test_version_zero_is_refused_as_before_2_20_or_found_as_since(files: Files) -> None:
    with pytest.raises(LayoutError, match="version 0"):
        find_models(files("00/saved_model.pb"), takes_zero=False)
    root = files("0/saved_model.pb")
    assert find_models(root) == {"model": {0: root / "0"}}


def test_an_archive_that_the_image_ends_over_or_waits_for_is_refused(files: Files) -> None:
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
