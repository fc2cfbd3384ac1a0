"""Code that would fail in the container is found by name; unusual code that runs there is not accused."""

import tomllib
from pathlib import Path

import pytest

from infra.catalog.images import find_modules
from model_packaging.dependencies.requirements_file import find_start_faults, has_requirements
from model_packaging.python_code import check_code

IMAGE = find_modules("2.20")
HANDLER = "def handler(data, context):\n    return data.read(), context.accept_header\n"
FAULTS = tomllib.loads(Path(__file__).with_name("faulty_code.toml").read_text())
VALID = tomllib.loads(Path(__file__).with_name("valid_code.toml").read_text())


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


def test_only_requirements_that_ask_for_a_package_need_a_lock(tmp_path: Path) -> None:
    for text in ("# nothing yet\n\n", "--index-url https://pypi.org/simple\n", ""):
        (tmp_path / "requirements.txt").write_text(text)
        assert not has_requirements(tmp_path)
    for line in ["numpy", "./wheels/a.whl", "-e .", "git+https://host/a.git"]:
        (tmp_path / "requirements.txt").write_text(f"# one\n{line}\n")
        assert has_requirements(tmp_path)


def test_a_variable_that_the_file_sets_is_not_missing(tmp_path: Path) -> None:
    assert found(tmp_path, {"inference.py": "import os\nX = os.environ['GIVEN']\n"}) == []


def test_undefined_names_are_found_whatever_the_image_is(tmp_path: Path) -> None:
    for python in ["3.6", "3.9", None]:
        (tmp_path / "inference.py").write_text(f"X = nowhere\n{HANDLER}")
        (finding,) = check_code(tmp_path, python=python, provided=None)
        assert finding.problem == "uses nowhere, which is not defined"
    (tmp_path / "inference.py").write_text(f"import orjson, json\n{HANDLER}")
    (finding,) = check_code(tmp_path, python=None, provided=None)
    assert (finding.severity, finding.problem) == ("not checked", "imports orjson")


FOREIGN = "lib/pkg/_c.cpython-39-x86_64-linux-gnu.so"


@pytest.mark.parametrize(("severity", "files"), [
    ("error", {"inference.py": "import fast\n", "lib/fast.cpython-39-x86_64-linux-gnu.so": ""}),
    ("error", {"inference.py": "def f():\n    from pkg import _c\n", FOREIGN: ""}),
    ("error", {"inference.py": "import pkg\n", "lib/pkg/__init__.py": "from . import _c\n"}),
    ("error", {"inference.py": "import pkg.a\n", "lib/pkg/a.py": "from ._c import x\n"}),
    ("error", {"inference.py": "import q\n", "lib/q.py": "import pkg._c\n"}),
    ("error", {"inference.py": "import own\n", "own.py": "import pkg._c\n"}),
    ("error",
     {"inference.py": "import pkg\n",
      "lib/pkg/__init__.py":
          "if __PKG_SETUP__:\n    pass\nelse:\n    try:\n        from . import _c\n"
          "    except ImportError as error:\n        raise ImportError('built?') from error\n"}),
    ("warning", {"inference.py": "import json\n"}),
    ("warning", {"inference.py": "import pkg\n", "lib/pkg/__init__.py": ""}),
    ("warning", {"inference.py": "try:\n    import pkg._c\nexcept ImportError:\n    pass\n"}),
    ("warning",
     {"inference.py": "import pkg\n",
      "lib/pkg/__init__.py": "try:\n    from . import _c\nexcept ImportError:\n    _c = 0\n"}),
    ("warning",
     {"inference.py": "import pkg\n", "lib/pkg/__init__.py": "def f():\n    from . import _c\n"}),
])  # fmt: skip
def test_a_foreign_module_that_the_code_imports_is_an_error(
    tmp_path: Path, severity: str, files: dict[str, str]
) -> None:
    given = files if any(name.endswith(".so") for name in files) else {**files, FOREIGN: ""}
    found(tmp_path, given)
    assert IMAGE
    findings = check_code(tmp_path, python="3.12", provided=IMAGE.modules)
    assert [one.severity for one in findings if one.file.suffix == ".so"] == [severity]


AT_START = {
    "./wheels/a.whl": "names the local path ./wheels/a.whl",
    "-e ./mylib": "names the local path ./mylib",
    "/home/me/a-1.0-py3-none-any.whl": "names the local path /home/me/a-1.0-py3-none-any.whl",
    "a @ file:///home/me/a.whl": "names the local path file:///home/me/a.whl",
    "--extra-index-url https://me:secret@host/simple": "'--extra-index-url https://***@host/simple' contains",
    "-i https://t0ken@host/simple": "'-i https://***@host/simple' contains credentials",
    "git+https://t0ken@github.com/o/r.git": "'git+https://***@github.com/o/r.git' contains credentials",
}


@pytest.mark.parametrize("line", AT_START)
def test_a_line_that_fails_in_a_container_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"# one\norjson\n{line}\n")
    ((_, number, problem, _),) = find_start_faults(tmp_path)
    assert (number, problem.startswith(AT_START[line])) == (3, True)


def test_a_line_that_works_in_a_container_is_not_accused(tmp_path: Path) -> None:
    for line in (
        "orjson==3.9.0", "-c constraints.txt", "-r more.txt", "--find-links ./wheels",
        "-i https://host/a", "git+ssh://git@github.com/o/r.git", "a @ https://host/a.whl",
        "-i https://${USER}:${TOKEN}@host/simple", "orjson --hash=sha256:00",
        "/opt/ml/model/code/a.whl",
    ):  # fmt: skip
        (tmp_path / "requirements.txt").write_text(f"{line}\n")
        assert list(find_start_faults(tmp_path)) == []
