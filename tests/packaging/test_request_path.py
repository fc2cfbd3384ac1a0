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
from model_packaging.refusal import PackagingError
from model_packaging.verification import verify

IMAGE = {"numpy", "google", "grpc", "falcon", "gevent", "requests"}
PREPROCESS = "def preprocess(body, context):\n    return {}\n"


@pytest.fixture
def hooked(inputs: ArchiveInputs) -> ArchiveInputs:
    """Code with hooks alone."""
    assert inputs.code is not None
    (inputs.code / "inference.py").unlink()
    (inputs.code / "transforms.py").write_text(PREPROCESS)
    return inputs


def names(inputs: ArchiveInputs) -> set[str]:
    return {entry.name for entry in inputs.build_tree().files}


def test_hooks_alone_get_our_handler_and_no_package_of_its_name(hooked: ArchiveInputs) -> None:
    wanted = {"code/inference.py", "code/transforms.py", "code/servable_handler/handler.py"}
    assert wanted <= names(hooked)
    assert "code/servable_handler/inference.py" not in names(hooked)

    assert hooked.code is not None
    (hooked.code / "servable_handler").mkdir()
    with pytest.raises(
        PackagingError, match="servable_handler: exists, but Servable's handler also uses"
    ):
        names(hooked)


def test_hooks_beside_a_handler_of_ones_own_get_none(inputs: ArchiveInputs) -> None:
    assert inputs.code is not None
    (inputs.code / "transforms.py").write_text(PREPROCESS)
    assert not any(name.startswith("code/servable_") for name in names(inputs))


def test_the_handler_that_is_asked_for_needs_no_code_and_is_not_put_over_another(
    inputs: ArchiveInputs,
) -> None:
    asked = replace(inputs, code=None, handler=True)
    assert {"code/inference.py", "code/servable_handler/handler.py"} <= names(asked)
    with pytest.raises(PackagingError) as caught:
        names(replace(inputs, handler=True))
    assert str(caught.value) == (
        f"{inputs.code}/inference.py: exists, but Servable's handler also uses the same "
        "name; rename it, or remove handler from the file"
    )


def test_other_hooks_are_another_key(hooked: ArchiveInputs) -> None:
    assert hooked.code is not None
    before = compute_key(hooked)
    (hooked.code / "transforms.py").write_text(PREPROCESS + "\n")
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
    assert ran.stdout.split() == [
        str(tmp_path / "out" / "code" / "servable_handler" / "__init__.py"),
        "True",
    ]


def test_one_hook_is_enough_and_hooks_are_checked_for_their_imports(hooked: ArchiveInputs) -> None:
    for hook in ["preprocess", "postprocess"]:
        assert hooked.code is not None
        (hooked.code / "transforms.py").write_text(f"def {hook}(one, context): ...\n")
        assert check_code(hooked.code, python="3.12", provided=IMAGE) == []

    assert hooked.code is not None
    (hooked.code / "transforms.py").write_text("x = 1\n")
    (found,) = check_code(hooked.code, python="3.12", provided=IMAGE)
    assert str(found).endswith(
        "transforms.py:1: defines neither preprocess nor postprocess; "
        "define preprocess(body, context), postprocess(tensors, context), or both"
    )

    assert hooked.code is not None
    (hooked.code / "transforms.py").write_text("import pandas_nowhere\n" + PREPROCESS)
    (found,) = check_code(hooked.code, python="3.12", provided=IMAGE)
    assert "pandas_nowhere" in found.problem

    assert hooked.code is not None
    text = "from servable_handler.hooks import InputError\n" + PREPROCESS
    (hooked.code / "transforms.py").write_text(text)
    assert check_code(hooked.code, python="3.12", provided=IMAGE) == []
