from pathlib import Path

import pytest

from servable_tensors.archive import LayoutError, find_code, find_models


def _files(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_versions_at_the_root_are_a_model_called_model(tmp_path: Path) -> None:
    _files(tmp_path, "1/saved_model.pb", "2/saved_model.pb")
    assert find_models(tmp_path) == {"model": {1: tmp_path / "1", 2: tmp_path / "2"}}


def test_a_model_is_named_after_the_folder_of_its_versions(tmp_path: Path) -> None:
    _files(tmp_path, "a/1/saved_model.pb", "export/b/7/saved_model.pb")
    assert list(find_models(tmp_path)) == ["a", "b"]


def test_leading_zeros_of_a_version_are_dropped(tmp_path: Path) -> None:
    _files(tmp_path, "a/0012/saved_model.pb")
    assert find_models(tmp_path)["a"] == {12: tmp_path / "a/0012"}


def test_a_folder_that_is_no_number_holds_no_version(tmp_path: Path) -> None:
    _files(tmp_path, "a/1/saved_model.pb", "a/latest/saved_model.pb")
    assert list(find_models(tmp_path)["a"]) == [1]


def test_an_archive_without_model_is_told_what_it_holds(tmp_path: Path) -> None:
    _files(tmp_path, "model/saved_model.pb", "readme.txt")
    with pytest.raises(LayoutError, match=r"it holds model/saved_model\.pb, readme\.txt"):
        find_models(tmp_path)


def test_version_zero_is_refused_as_the_container_before_2_20_would(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="version 0"):
        find_models(_files(tmp_path, "00/saved_model.pb"), takes_zero=False)


def test_version_zero_is_found_as_in_the_container_of_2_20(tmp_path: Path) -> None:
    assert find_models(_files(tmp_path, "0/saved_model.pb")) == {"model": {0: tmp_path / "0"}}


def test_a_version_folder_without_a_saved_model_is_refused_as_the_container_ends(
    tmp_path: Path,
) -> None:
    with pytest.raises(LayoutError, match=r"a/2 holds no saved_model\.pb"):
        find_models(_files(tmp_path, "a/1/saved_model.pb", "a/2/readme.txt"))


def test_a_file_named_as_a_version_is_refused_as_the_container_waits_for_it(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match=r"a/2 holds no saved_model\.pb"):
        find_models(_files(tmp_path, "a/1/saved_model.pb", "a/2"))


def test_a_folder_in_the_place_of_inference_py_is_what_is_imported(tmp_path: Path) -> None:
    code = find_code(_files(tmp_path, "code/inference.py/x"))
    assert code is not None
    assert code.inference == tmp_path / "code/inference.py"


def test_without_code_there_is_no_python_side(tmp_path: Path) -> None:
    assert find_code(_files(tmp_path, "1/saved_model.pb", "code/readme.txt")) is None


@pytest.mark.parametrize("name", ["code/inference.py", "code/lib/x.py", "code/requirements.txt"])
def test_each_of_three_names_switches_the_python_side_on(name: str, tmp_path: Path) -> None:
    assert find_code(_files(tmp_path, name)) is not None
