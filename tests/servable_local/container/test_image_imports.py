"""The process that runs user code imports what the image's could, and nothing else of this computer."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.catalog.images import find_modules
from servable_local.container.gunicorn import user_code
from tests.packaging.wheelhouse import wheel

# Installed here, and not in the image.
FOREIGN = "psutil"
BEGIN = """
import os, sys
from pathlib import Path
import psutil
from servable_local.container.gunicorn.user_code import restrict_imports
restrict_imports([Path("code"), Path("code/lib")])
"""


def run(
    program: str, folder: Path, version: str = "2.20", *, before: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / "code" / "lib").mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", f"from pathlib import Path\nimport os\n{before}\n{BEGIN}{program}"],
        capture_output=True, text=True, cwd=folder, check=False,
        env={"SAGEMAKER_TFS_VERSION": version},
    )  # fmt: skip


def import_each(modules: Sequence[str], folder: Path, version: str = "2.20") -> list[str]:
    """Import each module in one process; return the errors, "there" for a module that is found."""
    program = f"""
import importlib
for name in {list(modules)!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(error)
    else:
        print("there")
"""
    return run(program, folder, version).stdout.splitlines()


def test_what_is_not_in_the_image_is_refused_and_what_is_nowhere_not_found(tmp_path: Path) -> None:
    assert run(f"import {FOREIGN}", tmp_path).stderr.splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'psutil' in the image of TensorFlow 2.20, only on "
        "this computer; add its package to code/requirements.txt, and run: servable package ENV"
    )
    assert import_each(["nowhere_at_all"], tmp_path) == ["No module named 'nowhere_at_all'"]


def test_the_image_of_the_version_decides_or_the_newest(tmp_path: Path) -> None:
    (said,) = import_each(["numpy"], tmp_path, "2.19")
    assert "in the image of TensorFlow 2.19" in said
    for version in ("", "1", "2.20.1", "9.9"):
        (said,) = import_each([FOREIGN], tmp_path, version)
        assert "in the image of TensorFlow 2.20" in said


def test_what_the_image_has_is_imported_and_packages_of_this_project_are_refused(
    tmp_path: Path,
) -> None:
    ours = ("infra", "model_packaging", "servable_handler", "servable_tensors", "servable_local")
    its = ("numpy", "grpc.experimental.gevent", "google.protobuf", "requests", "json", "pandas")
    said = import_each([*its, *ours], tmp_path)
    assert said[: len(its)] == ["there"] * len(its)
    for module, refusal in zip(ours, said[len(its) :], strict=True):
        assert f"No module named {module!r} in the image" in refusal


@pytest.mark.parametrize("folder", ["code", "code/lib"])
def test_what_the_archive_brings_is_imported(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "psutil.py").write_text("MINE = 'mine'")
    assert run("import psutil; print(psutil.MINE)", tmp_path).stdout == "mine\n"


def test_a_path_that_is_added_later_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "psutil.py").write_text("MINE = 'mine'")
    program = "sys.path.append('more')\nimport psutil; print(psutil.MINE)"
    assert run(program, tmp_path).stdout == "mine\n"


def test_code_that_asks_for_a_module_or_its_version_is_told_that_it_is_not_there(
    tmp_path: Path,
) -> None:
    program = """
import importlib.metadata, importlib.util
try:
    import psutil
except ImportError as error:
    print(error.name)
print(importlib.util.find_spec("psutil"))
importlib.metadata.version("psutil")
"""
    ran = run(program, tmp_path)
    assert ran.stdout == "psutil\nNone\n"
    assert "PackageNotFoundError" in ran.stderr


def test_versions_path_and_own_modules_are_the_images(tmp_path: Path) -> None:
    (tmp_path / "code" / "lib").mkdir(parents=True)
    wheel(tmp_path, "mine")
    zipfile.ZipFile(tmp_path / "mine-1.0-py3-none-any.whl").extractall(tmp_path / "code" / "lib")
    program = """
from importlib.metadata import version
print([version(name)[0].isdigit() for name in ("numpy", "PyYAML", "mine")])
"""
    assert run(program, tmp_path).stdout == "[True, True, True]\n"
    program = "import tfs_utils\nprint(os.environ['PYTHONPATH'], tfs_utils.DEFAULT_CONTENT_TYPE)"
    assert run(program, tmp_path).stdout == "code:code/lib application/json\n"


def test_the_table_says_what_the_catalog_says() -> None:
    """Each is written down for itself: `servable check` reads the one, the local container the other."""
    table = Path(user_code.__file__).with_name("image_modules.json")
    read = json.loads(table.read_text())
    for version, modules in read["versions"].items():
        modules = read.get(modules, modules) if isinstance(modules, str) else modules
        image = find_modules(version)
        assert image is not None
        assert image.modules == set(modules)
        assert image.python == read["python"][version]


@pytest.mark.parametrize("file", ["code/json.py", "code/lib/email.py"])
def test_a_file_that_hides_a_module_of_the_service_is_refused_as_the_image_fails(
    tmp_path: Path, file: str
) -> None:
    (tmp_path / "code" / "lib").mkdir(parents=True)
    (tmp_path / file).write_text("x = 1\n")
    last = run("", tmp_path, before="import json, email").stderr.splitlines()[-1]
    hidden = Path(file).stem
    assert f"CodeError: {'/'.join(Path(file).parts[-2:])} hides the module {hidden}, " in last


def test_a_file_that_hides_nothing_of_the_service_is_taken(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for name in ("statistics", "six", "os"):
        (tmp_path / "code" / f"{name}.py").write_text("x = 1\n")
    assert run("print(1)", tmp_path).stdout == "1\n"


def test_the_containers_own_modules_hide_the_codes(tmp_path: Path) -> None:
    """Observed: code/serve.py is never imported, /sagemaker/serve.py is (starts.jsonl)."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "serve.py").write_text("def load(): ...\n")
    ran = run("import serve\nserve.load()", tmp_path)
    assert "serve is the container's own module" in ran.stderr
    assert "module 'serve' has no attribute 'load'" in ran.stderr


def test_the_containers_model_folder_is_where_the_archive_is_here(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "vocab.txt").write_text("a b c")
    program = (
        "from servable_local.container.gunicorn.master import map_model_folder\n"
        "map_model_folder(Path.cwd())\nfile = '/opt/ml/model/code/vocab.txt'\n"
        "print(open(file).read(), Path(file).read_text(), os.path.isfile(file))"
    )
    assert run("", tmp_path, before=program).stdout == "a b c a b c True\n"
