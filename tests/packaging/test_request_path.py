"""Our handler in an archive: beside hooks, or asked for; never over a file of the code."""

import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs, compute_key, find_needed_modules
from model_packaging.python_code import check_code
from model_packaging.verification import verify
from tests.packaging.conftest import refusal

IMAGE = {"numpy", "google", "grpc", "falcon", "gevent", "requests"}
PREPROCESS = "def preprocess(body, context):\n    return {}\n"


@pytest.fixture
def hooked(inputs: ArchiveInputs) -> ArchiveInputs:
    """Code with hooks alone."""
    transforms(inputs).write_text(PREPROCESS)
    transforms(inputs).with_name("inference.py").unlink()
    return inputs


def transforms(inputs: ArchiveInputs) -> Path:
    """The file of the hooks."""
    assert inputs.code is not None
    return inputs.code / "transforms.py"


def names(inputs: ArchiveInputs) -> set[str]:
    return {entry.name for entry in inputs.build_tree().files}


def test_hooks_alone_get_our_handler_and_no_package_of_its_name(hooked: ArchiveInputs) -> None:
    wanted = {"code/inference.py", "code/transforms.py", "code/servable_handler/handler.py"}
    assert wanted <= names(hooked)
    assert "code/servable_handler/inference.py" not in names(hooked)
    transforms(hooked).with_name("servable_handler").mkdir()
    assert "servable_handler: exists, but Servable's handler also uses" in refusal(names, hooked)


def test_hooks_beside_a_handler_of_ones_own_get_none(inputs: ArchiveInputs) -> None:
    transforms(inputs).write_text(PREPROCESS)
    assert not any(name.startswith("code/servable_") for name in names(inputs))


def test_the_handler_asked_for_needs_no_code_and_replaces_no_other(inputs: ArchiveInputs) -> None:
    asked = replace(inputs, code=None, handler=True)
    assert {"code/inference.py", "code/servable_handler/handler.py"} <= names(asked)
    assert refusal(names, replace(inputs, handler=True)) == (
        f"{inputs.code}/inference.py: exists, but Servable's handler also uses the same "
        "name; rename it, or remove handler from the file"
    )


def test_other_hooks_are_another_key(hooked: ArchiveInputs) -> None:
    before = compute_key(hooked)
    transforms(hooked).write_text(PREPROCESS + "\n")
    assert compute_key(hooked) != before


def test_the_image_holds_what_the_handler_imports() -> None:
    assert find_needed_modules() <= IMAGE


@pytest.mark.long
def test_an_archive_with_the_handler_is_verified_and_loads_as_in_the_container(
    hooked: ArchiveInputs, tmp_path: Path
) -> None:
    packed = pack(hooked, tmp_path / "a.tar.gz")
    found = verify(packed.path, python="3.12", provided=IMAGE)
    assert [problem for problem in found.problems if problem.startswith("code/")] == []

    with tarfile.open(packed.path) as opened:
        opened.extractall(tmp_path / "out", filter="data")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'out' / 'code')!r})\n"
        "import inference, servable_handler\n"
        "print(servable_handler.__file__, callable(inference.handler))"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program],
        check=True, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    shown = ran.stdout.split()
    assert shown == [str(tmp_path / "out" / "code" / "servable_handler" / "__init__.py"), "True"]


def test_one_hook_is_enough_and_hooks_are_checked_for_their_imports(hooked: ArchiveInputs) -> None:
    def check(text: str) -> list[str]:
        transforms(hooked).write_text(text)
        return [str(one) for one in check_code(file.parent, python="3.12", provided=IMAGE)]

    file = transforms(hooked)
    for hook in ["preprocess", "postprocess"]:
        assert check(f"def {hook}(one, context): ...\n") == []
    assert check("x = 1\n") == [
        f"{file}:1: defines neither preprocess nor postprocess; "
        "define preprocess(body, context), postprocess(tensors, context), or both"
    ]
    (found,) = check("import pandas_nowhere\n" + PREPROCESS)
    assert "pandas_nowhere" in found
    assert check("from servable_handler.hooks import InputError\n" + PREPROCESS) == []
