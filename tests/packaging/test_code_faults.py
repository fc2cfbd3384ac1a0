"""Code that would fail in the container is found by name; unusual code that runs there is not accused."""

import tomllib
from pathlib import Path

import pytest

from infra.catalog.images import image_modules
from model_packaging.dependencies import asks
from model_packaging.python_code import check_code

IMAGE = image_modules("2.20")
HANDLER = "def handler(data, context):\n    return data.read(), context.accept_header\n"
FAULTS = tomllib.loads(Path(__file__).with_name("faulty_code.toml").read_text())
VALID = tomllib.loads(Path(__file__).with_name("valid_code.toml").read_text())
REQUIREMENTS = {
    "comments alone": "# nothing yet\n\n",
    "an index alone": "--index-url https://pypi.org/simple\n",
    "empty": "",
}


def found(folder: Path, files: dict[str, str]) -> list[str]:
    """FILE:LINE: problem of each finding; inference.py gets a handler if it has none."""
    assert IMAGE
    for name, text in files.items():
        lacks = name == "inference.py" and "handler" not in text
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + HANDLER if lacks else text)
    findings = check_code(
        folder, python="3.12", provided=IMAGE.modules, variables={"GIVEN"}, seconds=60
    )
    return [f"{one.file.relative_to(folder)}:{one.line}: {one.problem}" for one in findings]


@pytest.mark.parametrize("name", FAULTS)
def test_what_fails_in_the_container_is_found_by_name(tmp_path: Path, name: str) -> None:
    files = dict(FAULTS[name])
    expected = files.pop("finding")
    assert found(tmp_path, files) == [expected]


@pytest.mark.parametrize("name", VALID)
def test_unusual_code_that_runs_is_not_accused(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, VALID[name]) == []


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_requirements_that_ask_for_nothing_need_no_lock(tmp_path: Path, name: str) -> None:
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS[name])
    assert not asks(tmp_path)


@pytest.mark.parametrize("line", ["numpy", "./wheels/a.whl", "-e .", "git+https://host/a.git"])
def test_requirements_that_ask_for_a_package_need_one(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"# one\n{line}\n")
    assert asks(tmp_path)


def test_a_variable_that_the_file_sets_is_not_missing(tmp_path: Path) -> None:
    assert found(tmp_path, {"inference.py": "import os\nX = os.environ['GIVEN']\n"}) == []


@pytest.mark.parametrize("python", ["3.6", "3.9", None])
def test_undefined_names_are_found_whatever_the_image_is(
    tmp_path: Path, python: str | None
) -> None:
    (tmp_path / "inference.py").write_text(f"X = nowhere\n{HANDLER}")
    (finding,) = check_code(tmp_path, python=python, provided=None)
    assert finding.problem == "uses nowhere, which is not defined"


def test_an_import_is_not_checked_where_the_modules_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "inference.py").write_text(f"import orjson, json\n{HANDLER}")
    (finding,) = check_code(tmp_path, python=None, provided=None)
    assert (finding.severity, finding.problem) == ("not checked", "imports orjson")
