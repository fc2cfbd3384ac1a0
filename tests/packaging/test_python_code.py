"""The code of a model is known to run in the image before it leaves the computer."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.catalog.images import find_modules
from model_packaging.dependencies import wheels as locked
from model_packaging.dependencies.wheels import Wheel
from model_packaging.python_code import check_code
from model_packaging.python_source import list_standard_library

HANDLER = "def handler(data, context): ...\n"
IMAGE = find_modules("2.20")
assert IMAGE


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    return tmp_path / "code"


def found(code: Path, text: str | None = None, python: str = "3.12") -> list[str]:
    """The findings of the code, after `text` was written to inference.py."""
    if text is not None:
        write(code, text)
    assert IMAGE
    findings = check_code(code, python=python, provided=IMAGE.modules)
    return [str(finding).removeprefix(f"{code}/") for finding in findings]


def write(code: Path, text: str, name: str = "inference.py") -> None:
    (code / name).parent.mkdir(parents=True, exist_ok=True)
    (code / name).write_text(text)


@pytest.mark.parametrize(
    "text",
    [HANDLER, "def input_handler(d, c): ...\ndef output_handler(r, c): ...\n", "handler = print\n",
     "handler: object = print\n", "one, handler = [print, print]\n",
     "from requests import post as handler\n",
     "import json as input_handler, json as output_handler\n",
     "if True:\n    handler = 1\nelse:\n    pass\n",
     "try:\n    pass\nexcept ValueError:\n    def handler(d, c): ...\n",
     "for handler in []: pass\n", "class handler: ...\n", "from json import *\n"],
)  # fmt: skip
def test_a_handler_defined_in_any_way_is_found(code: Path, text: str) -> None:
    assert found(code, text) == []


@pytest.mark.parametrize(("text", "problem"), [
    ("", "defines no handler"),
    ("handler: object\n", "defines no handler"),
    ("def f():\n    handler = 1\n", "defines no handler"),
    ("def input_handler(d, c): ...\n", "defines only input_handler"),
    ("output_handler = 1\n", "defines only output_handler"),
])  # fmt: skip
def test_code_without_handler_is_a_finding(code: Path, text: str, problem: str) -> None:
    assert found(code, text) == [
        f"inference.py:1: {problem}; "
        "define handler(data, context), or both input_handler and output_handler"
    ]


def test_code_is_in_the_encoding_that_it_declares(code: Path) -> None:
    for head, said in [
        ("# -*- coding: latin-1 -*-", []),
        ("", ["inference.py:1: line 2 contains byte 0xe9, which is not UTF-8; "
              "save it as UTF-8, or declare its encoding in the first line"]),
    ]:  # fmt: skip
        (code / "inference.py").write_bytes(f"{head}\n# café\n{HANDLER}".encode("latin-1"))
        assert found(code) == said


def test_code_without_inference_py_is_a_finding(code: Path) -> None:
    assert found(code) == ["inference.py:0: does not exist; create it, or remove `code`"]


def test_an_import_that_the_container_lacks_is_a_finding_that_says_why(code: Path) -> None:
    assert found(code, f"import json\nimport tensorflow as tf\n{HANDLER}") == [
        "inference.py:2: imports tensorflow; TensorFlow is not in the serving image: "
        "the model server is a separate program; "
        "send the request to context.rest_uri, or build tensors with numpy and protobuf"
    ]
    write(code, f"from tensorflow_serving.apis import predict_pb2\n{HANDLER}")
    assert "it is in the image, but imports tensorflow, which isn't" in found(code)[0]
    assert found(code, "def handler(data, context):\n    import orjson\n    return 1, 'a/b'\n") == [
        "inference.py:2: imports orjson, which isn't in the image, code/lib, or the code; "
        "add its package to code/requirements.txt, or import it in try/except ImportError"
    ]
    write(code, f"import imp\n{HANDLER}")
    told = found(code)[0]
    assert "imports imp, which was removed from Python's standard library before 3.12" in told


def test_an_import_that_may_fail_or_may_not_run_in_the_container_is_no_finding(code: Path) -> None:
    for caught in ["", " builtins.ImportError"]:  # valid_code.toml has the others
        write(code, f"try:\n    import orjson\nexcept{caught}:\n    orjson = None\n{HANDLER}")
        assert found(code) == []
    for test in [
        '__name__ == "__main__"', "sys.version_info < (3, 11)", "sys.version_info[:2] < (3, 11)",
        'sys.platform == "win32"', 'os.name == "nt"',
    ]:  # fmt: skip
        assert found(code, f"import os, sys\n{HANDLER}if {test}:\n    import orjson\n") == []


def test_another_with_and_a_try_for_something_else_do_not_help(code: Path) -> None:
    assert len(found(code, f"with print() as x:\n    import orjson\n{HANDLER}")) == 1
    assert len(found(code, f"try:\n    import orjson\nexcept OSError:\n    pass\n{HANDLER}")) == 1


def test_what_the_image_or_lib_holds_or_nothing_imports_is_no_finding(code: Path) -> None:
    for module in ["json", "numpy.linalg", "falcon", "google.protobuf", "sklearn"]:
        assert found(code, f"import {module}\n{HANDLER}") == []
    write(code, f"import fast\n{HANDLER}")
    write(code, "import tensorflow\n", "train.py")
    for file in ["fast.py", "fast/__init__.py", "fast.cpython-312-x86_64-linux-gnu.so"]:
        write(code, "", f"lib/{file}")
        assert found(code) == []
        shutil.rmtree(code / "lib")


def test_modules_and_packages_beside_inference_py_are_followed(code: Path) -> None:
    write(code, f"from features import words\n{HANDLER}")
    write(code, "import spacy\n", "features/words.py")
    assert [one[:24] for one in found(code)] == ["features/words.py:1: imp"]
    write(code, f"import features.scale\n{HANDLER}")
    write(code, "from .words import cut\n", "features/__init__.py")
    write(code, "\nimport spacy as cut\n", "features/words.py")
    write(code, "", "features/scale.py")
    assert [one[:24] for one in found(code)] == ["features/words.py:2: imp"]


def test_a_submodule_that_a_package_lacks_is_a_finding_and_its_own_name_is_none(code: Path) -> None:
    for text in ["import features.words", "from features.words import cut"]:
        write(code, f"{text}\n{HANDLER}")
        write(code, "", "features/__init__.py")
        assert found(code) == [
            "inference.py:1: imports features.words, which is not in the code folder; "
            "add it, or remove the import"
        ]
    write(code, f"from features import words\n{HANDLER}")
    write(code, "SIZE = 3\n", "features/__init__.py")
    write(code, "from . import SIZE\n", "features/words.py")
    assert found(code) == []


def test_a_submodule_that_a_package_has_is_no_finding(code: Path) -> None:
    write(code, f"import features.words\n{HANDLER}")
    for file in ["words.py", "words/cut.py", "words.cpython-312-x86_64.so"]:
        write(code, "", "features/__init__.py")
        write(code, "", f"features/{file}")
        assert found(code) == []
        shutil.rmtree(code / "features")


def test_a_relative_import_outside_its_package_is_a_finding(code: Path) -> None:
    write(code, f"from . import words\n{HANDLER}")
    write(code, "", "words.py")
    outside = "uses a relative import outside a package; import it by its name alone"
    assert found(code) == [f"inference.py:1: {outside}"]
    for dots in ["..", "." * 50]:
        write(code, f"import features.scale\n{HANDLER}")
        write(code, "", "features/__init__.py")
        write(code, f"from {dots} import words\n", "features/scale.py")
        write(code, "", "words.py")
        assert found(code) == [f"features/scale.py:1: {outside}"]


def test_what_requirements_name_is_no_finding_unless_lib_is_beside_them(code: Path) -> None:
    write(code, f"import orjson, PIL, yaml\n{HANDLER}")
    write(code, "orjson==3.1\n# images\nPillow>=10\npyyaml\n", "requirements.txt")
    assert found(code) == []

    write(code, f"import orjson\n{HANDLER}")
    write(code, "\ufeff-r more.txt\r\n", "requirements.txt")
    write(code, "orjson\n", "more.txt")
    assert found(code) == []

    write(code, f"import orjson\n{HANDLER}")
    write(code, "something\n", "requirements.txt")
    assert IMAGE
    findings = check_code(code, python="3.12", provided=IMAGE.modules)
    assert [finding.severity for finding in findings] == ["warning"]

    write(code, f"import orjson\n{HANDLER}")
    write(code, "orjson\n", "requirements.txt")
    (code / "lib").mkdir()
    assert len(found(code)) == 1


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 reads it")
def test_what_only_the_images_newer_python_can_read_is_not_checked(code: Path) -> None:
    assert IMAGE
    newer = ('x = f"{dict(a=1)["a"]}"', "type Rows = list[int]", "def first[T](rows): ...")
    for text in (*newer, "class Rows[T]: pass"):
        write(code, f"import json\n{text}\n{HANDLER}")
        (finding,) = check_code(code, python="3.12", provided=IMAGE.modules)
        assert (finding.line, finding.severity) == (2, "not checked")
        assert finding.remedy == "install servable with Python 3.12"
        assert found(code, python="3.11")[0].startswith("inference.py:2: is not Python 3.11: ")


def test_what_is_not_python_is_a_finding_with_its_line(code: Path) -> None:
    for text in ['print "a"', "def f(:", "x = )", "x = (", "if 1:\n\t1\n        2"]:
        write(code, f"import json\n{text}\ny = 1\n")
        line = 2 + text.count("\n")
        assert found(code)[0].startswith(f"inference.py:{line}: is not Python 3.12: ")


@pytest.mark.parametrize("text", [
    "x = " + "-" * 100_000 + "1", "x = " + " + ".join("1" * 20_000),
    "if a: pass\n" + "elif b: pass\n" * 1500,
], ids=["signs", "sum", "branches"])  # fmt: skip
def test_what_is_nested_too_deeply_is_a_finding(code: Path, text: str) -> None:
    assert "is nested too deeply to be" in found(code, f"{HANDLER}{text}\n")[0]


def test_what_is_newer_than_the_images_python_or_unreadable_is_a_finding(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(code, f"match 1:\n    case 1: pass\n{HANDLER}")
    assert "is not Python 3.9: Pattern matching is only" in found(code, python="3.9")[0]
    (code / "inference.py").write_bytes(b"\xff\xfe\x00")
    assert "is not Python 3.12: " in found(code)[0]

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    write(code, HANDLER)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    shown = found(code)
    assert shown == ["inference.py:0: cannot be read: Permission denied; let this user read it"]


def test_code_is_not_run_and_that_of_the_ranker_has_no_finding(code: Path) -> None:
    assert found(code, f"raise SystemExit(1)\n{HANDLER}") == []
    assert found(Path(__file__).parents[2] / "examples" / "ranker" / "code") == []


ARTICLE = f"import numpy\nimport tensorflow as tf\nfrom tensorflow_serving.apis import predict_pb2\n{HANDLER}"


@pytest.mark.parametrize(("wheels", "severities"), [
    (None, ["warning"]),
    (("tensorflow-2.20.0", "tensorflow_serving_api-2.19.1"), []),
    (("tensorflow_cpu-2.20.0", "tensorflow_serving_api-2.19.1"), []),
    (("tensorflow_serving_api-2.19.1",), ["error"]),
])  # fmt: skip
def test_the_lock_says_whether_a_requirement_brings_tensorflow(
    code: Path, wheels: tuple[str, ...] | None, severities: list[str]
) -> None:
    write(code, ARTICLE)
    (code / "requirements.txt").write_text("tensorflow-serving-api\nnumpy\n")
    if wheels is not None:
        chosen = [Wheel(f"{name}-py3-none-any.whl", "0" * 64) for name in wheels]
        locked.write_lock(code, chosen, python="3.12")
    image = find_modules("2.20")
    assert image is not None
    findings = check_code(code, python=image.python, provided=image.modules)
    assert [finding.severity for finding in findings] == severities
    if wheels is None:
        assert "run `servable package ENV`" in findings[0].remedy
        assert "[acknowledge]" in findings[0].remedy
    # A lock of other requirements says nothing.
    (code / "requirements.txt").write_text("tensorflow-serving-api\nnumpy\nsix\n")
    stale = check_code(code, python=image.python, provided=image.modules)
    assert [finding.severity for finding in stale] == ["warning"]


def test_our_own_is_what_python_says() -> None:
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert list_standard_library(ours) == sys.stdlib_module_names


@pytest.mark.long
@pytest.mark.parametrize("python", ["3.10", "3.12", "3.13"])
def test_another_python_says_the_same_of_itself(python: str) -> None:
    code = "import sys; print(*sorted(n for n in sys.stdlib_module_names if n[0] != '_'))"
    try:
        ran = subprocess.run([f"python{python}", "-c", code], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"no python{python} here")
    if ran.returncode:
        pytest.skip(f"python{python} does not run")
    assert sorted(n for n in list_standard_library(python) if n[0] != "_") == ran.stdout.split()
