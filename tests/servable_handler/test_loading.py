"""How the handler is loaded: what it imports, the hooks that it finds, and several models in one process."""

import ast
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from infra.catalog.images import find_modules
from model_packaging.inputs import PACKAGES, build_handler_tree

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "packages/servable-runtime"
FILES = [file for name in PACKAGES for file in sorted((RUNTIME / name).rglob("*.py"))]
# The handler runs in the image, and is imported before the fork.
IN_THE_IMAGE = {"numpy", "google", "grpc", "falcon", "gevent", "requests"}
WHERE_VENDORED = {"orjson"}


def imported(file: Path) -> set[str]:
    """Top-level names of everything that the file imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add((node.module or "").partition(".")[0])
    return found


def test_only_what_the_image_holds_is_imported() -> None:
    allowed = set(sys.stdlib_module_names) | IN_THE_IMAGE | WHERE_VENDORED | {*PACKAGES}
    assert {file.name: imported(file) - allowed for file in FILES if imported(file) - allowed} == {}
    assert len({file.parts[-2] for file in FILES}) > len(PACKAGES)
    image = find_modules("2.20")
    assert image is not None
    assert image.modules >= IN_THE_IMAGE


def run(code: str, *options: str, folder: Path = ROOT) -> str:
    command = [sys.executable, *options, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.long
def test_importing_opens_no_socket_thread_or_channel() -> None:
    code = (
        "import sys\nopened = []\n"
        "sys.addaudithook(lambda event, _: opened.append(event) if event.startswith('socket.') else None)\n"
        "import servable_handler.inference\nprint(opened)"
    )
    assert run(code) == "[]"

    code = "import os, servable_handler.inference\nprint(len(os.listdir('/proc/self/task')))"
    before = "import os, numpy\nprint(len(os.listdir('/proc/self/task')))"  # OpenBLAS has its own
    assert run(code) == run(before)
    code = (
        "import grpc\n"
        "def opened(*a, **k): raise SystemExit('a channel')\n"
        "grpc.insecure_channel = opened\nimport servable_handler.inference\nprint('fine')"
    )
    assert run(code) == "fine"
    code = "import sys, servable_tensors.tensors\nprint([m for m in ('grpc', 'gevent') if m in sys.modules])"
    assert run(code) == "[]"


def loaded(folder: Path, transforms: str | None) -> subprocess.CompletedProcess[str]:
    if transforms is not None:
        (folder / "transforms.py").write_text(transforms)
    code = (
        f"import sys, pathlib; sys.path.insert(0, {str(ROOT)!r})\n"
        "from servable_handler.hooks import load_hooks\n"
        f"hooks = load_hooks(pathlib.Path({str(folder)!r}))\n"
        "print(hooks.preprocess is not None, hooks.postprocess is not None)"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False
    )


BOTH = "from servable_handler.hooks import InputError\npreprocess = postprocess = print"


@pytest.mark.parametrize(("transforms", "found"), [
    (None, "False False"),
    ("def preprocess(body, context): ...", "True False"),
    ("def postprocess(tensors, context): ...", "False True"),
    (BOTH, "True True"),
], ids=["none", "preprocess", "postprocess", "both"])  # fmt: skip
def test_the_hooks_there_are_are_found(transforms: str | None, found: str, tmp_path: Path) -> None:
    assert loaded(tmp_path, transforms).stdout.strip() == found


@pytest.mark.long
def test_transforms_without_a_hook_or_that_do_not_import_do_not_start(tmp_path: Path) -> None:
    ran = loaded(tmp_path, "def pre_process(): ...")
    assert "transforms.py defines neither preprocess nor postprocess" in ran.stderr
    assert "ZeroDivisionError" in loaded(tmp_path, "1 / 0").stderr


# What `_import_custom_modules` and `_import_handlers` of python_service.py do in multi-model mode.
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


def load(folder: Path, program: str) -> str:
    """Run the program after the models' handlers are loaded.

    -I -S: nothing is on the path but what is put there, and no editable installation.
    """
    site = sysconfig.get_path("purelib")
    program = f"import sys\nsys.path.append({site!r})\n{LOAD}{program}"
    return run(program, "-I", "-S", folder=folder)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    model(tmp_path / "one", "first", version="1")
    model(tmp_path / "two", "second", version="2")
    return tmp_path


@pytest.mark.long
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
    assert load(models, program).splitlines() == [
        "first 1", "RequestError 400 first", "second 2", "RequestError 400 second",
        "one/code/lib two/code/lib",
    ]  # fmt: skip


@pytest.mark.long
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
    assert load(models, program) == "first False"


@pytest.mark.long
def test_with_its_folder_on_the_path_modules_stay(tmp_path: Path) -> None:
    """As in the other mode, where the image puts code/ on the path."""
    model(tmp_path / "one", "first")
    (tmp_path / "two").symlink_to("one")
    program = "sys.path.insert(0, os.path.abspath('one/code'))\nload('one')\n"
    program += "print(sys.modules['words'].__file__)"
    assert load(tmp_path, program).endswith("one/code/words.py")
