"""Several models with the handler in one process, as multi-model mode loads them.

A process of its own: with packages, without this checkout, and of the models only code/lib on the
path (python_service.py, _import_custom_modules).
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from model_packaging.inputs import build_handler_tree

pytestmark = pytest.mark.long

# What `_import_custom_modules` and `_import_handlers` do.
LOAD = """
import importlib.util, os, sys

def load(model):
    code = model + "/code"
    if os.path.exists(code + "/lib"):
        sys.path.append(code + "/lib")
    spec = importlib.util.spec_from_file_location("inference", code + "/inference.py")
    inference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(inference)
    return inference.handler

one, two = load("one"), load("two")
def hooks(handler): return handler._hooks
"""
TRANSFORMS = """
import words
from servable_handler.hooks import InputError

def preprocess(body, context):
    return {"x": words.WORD}

def postprocess(tensors, context):
    raise InputError(words.WORD)
"""


def model(folder: Path, word: str, *, version: str = "") -> None:
    """A model's code/: the packed handler, hooks, a module beside them and one in lib/."""
    for entry in build_handler_tree(None).entries:
        target = folder / entry.name
        if entry.is_folder:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.write_bytes(entry.path.read_bytes())
    code = folder / "code"
    (code / "transforms.py").write_text(TRANSFORMS)
    (code / "words.py").write_text(f"WORD = {word!r}\n")
    (code / "lib").mkdir()
    (code / "lib" / f"vendored_{word}.py").write_text("")
    with (code / "servable_handler" / "request.py").open("a") as file:
        file.write(f"\nVERSION = {version!r}\n")


def run(folder: Path, program: str) -> str:
    # -I -S: nothing is on the path but what is put there, and no editable installation.
    site = sysconfig.get_path("purelib")
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys\nsys.path.append({site!r})\n{LOAD}{program}"],
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    model(tmp_path / "one", "first", version="1")
    model(tmp_path / "two", "second", version="2")
    return tmp_path


def test_each_model_has_the_modules_handler_and_refusals_of_its_own_archive(models: Path) -> None:
    program = """
for handler in (one, two):
    its = hooks(handler)
    request_error = type(its).run_preprocess.__globals__["RequestError"]
    print(its.preprocess(b"", None)["x"], request_error.__init__.__globals__["VERSION"])
    try:
        its.run_postprocess({}, None)
    except Exception as error:
        print(type(error).__name__, error.status, error)
import vendored_first, vendored_second  # only vendored packages stay on the path, in common
print(*(p for p in sys.path if p.startswith(("one", "two"))))
"""
    assert run(models, program).splitlines() == [
        "first 1", "RequestError 400 first", "second 2", "RequestError 400 second",
        "one/code/lib two/code/lib",
    ]  # fmt: skip


def test_a_model_that_does_not_load_leaves_the_others_as_they_are(models: Path) -> None:
    (models / "three").mkdir()
    model(models / "three" / "x", "third")
    (models / "three" / "x" / "code" / "words.py").write_text("1 / 0")
    program = """
try:
    load("three/x")
except ZeroDivisionError:
    print(hooks(one).preprocess(b"", None)["x"], "words" in sys.modules)
"""
    assert run(models, program) == "first False"


def test_with_its_folder_on_the_path_modules_stay(tmp_path: Path) -> None:
    """As in the other mode, where the image puts code/ on the path."""
    model(tmp_path / "one", "first")
    (tmp_path / "two").symlink_to("one")
    program = "sys.path.insert(0, os.path.abspath('one/code'))\nload('one')\n"
    program += "print(sys.modules['words'].__file__)"
    assert run(tmp_path, program).endswith("one/code/words.py")
