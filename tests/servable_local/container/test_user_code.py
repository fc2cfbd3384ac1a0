"""User code: its handler, and its imports: what the image's could, and nothing else of this computer."""

import json
import platform
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from infra.catalog.images import find_modules
from servable_local.container.gunicorn import user_code
from servable_local.container.gunicorn.user_code import CodeError, Handler, load_handler
from servable_local.container.image_code import find_image_code
from tests.packaging.wheelhouse import wheel

# Installed here, and not in the image.
FOREIGN = "psutil"
BEGIN = """
import importlib, importlib.metadata, importlib.util, os, sys
from pathlib import Path
import psutil
from servable_local.container.gunicorn.user_code import restrict_imports
restrict_imports([Path("code"), Path("code/lib")])
def attempt(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        return error
"""


def run(
    program: str, folder: Path, image: str = "2.20", first: str = "", files: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    for name, text in {"code/lib/any.txt": "", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return subprocess.run(
        [sys.executable, "-c", f"from pathlib import Path\nimport os\n{first}\n{BEGIN}{program}"],
        capture_output=True, text=True, cwd=folder, check=False,
        env={"SAGEMAKER_TFS_VERSION": image},
    )  # fmt: skip


@pytest.mark.long
def test_what_the_image_has_is_imported_and_all_else_refused(tmp_path: Path) -> None:
    ours = ["infra", "model_packaging", "servable_handler", "servable_tensors", "servable_local"]
    its = ["numpy", "grpc.experimental.gevent", "google.protobuf", "requests", "json", "pandas"]
    program = f"""
for name in {[*its, *ours, "nowhere_at_all", FOREIGN]}: print(attempt(name))
print(attempt('psutil').name, importlib.util.find_spec('psutil'))
importlib.metadata.version('psutil')"""
    ran = run(program, tmp_path)
    *said, nowhere, foreign, found = ran.stdout.splitlines()
    assert [line.startswith("<module ") for line in said] == [True] * len(its) + [False] * len(ours)
    for module, refusal in zip(ours, said[len(its) :], strict=True):
        assert f"No module named {module!r} in the image" in refusal
    assert nowhere == "No module named 'nowhere_at_all'"
    assert foreign == (
        "No module named 'psutil' in the image of TensorFlow 2.20, only on "
        "this computer; add its package to code/requirements.txt, and run: servable package ENV"
    )
    assert found == "psutil None"
    assert "PackageNotFoundError" in ran.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "module", "image"), [("2.19.1", "numpy", "2.19"), ("9.9", FOREIGN, "2.20")]
)
def test_the_image_of_the_version_decides_or_the_newest(
    version: str, module: str, image: str, tmp_path: Path
) -> None:
    said = run(f"print(attempt({module!r}))", tmp_path, version).stdout
    assert f"in the image of TensorFlow {image}" in said


def test_what_the_archive_brings_or_is_added_later_is_imported(tmp_path: Path) -> None:
    files = {
        f"{folder}.py": "MINE = 'mine'" for folder in ("code/psutil", "code/lib/click", "more/rich")
    }
    program = """
sys.path.append('more')
print(*(attempt(name).MINE for name in ('psutil', 'click', 'rich')))"""
    assert run(program, tmp_path, files=files).stdout == "mine mine mine\n"


@pytest.mark.long
def test_versions_path_own_modules_and_model_folder_are_the_images(tmp_path: Path) -> None:
    wheel(tmp_path, "mine")
    zipfile.ZipFile(tmp_path / "mine-1.0-py3-none-any.whl").extractall(tmp_path / "code" / "lib")
    # Names of modules that the service doesn't use hide nothing.
    files = {f"code/{name}.py": "x = 1\n" for name in ("statistics", "six", "os")}
    files |= {"code/serve.py": "def load(): ...\n", "code/vocab.txt": "a b c"}
    before = (
        "from servable_local.container.gunicorn.master import map_model_folder\n"
        "map_model_folder(Path.cwd())\nfile = '/opt/ml/model/code/vocab.txt'\n"
        "print(open(file).read(), Path(file).read_text(), os.path.isfile(file))"
    )
    program = """
print([importlib.metadata.version(name)[0].isdigit() for name in ("numpy", "PyYAML", "mine")])
print(os.environ["PYTHONPATH"], attempt("tfs_utils").DEFAULT_CONTENT_TYPE)
import serve
serve.load()
"""
    ran = run(program, tmp_path, first=before, files=files)
    assert ran.stdout.splitlines() == [
        "a b c a b c True",
        "[True, True, True]",
        "code:code/lib application/json",
    ]
    # Observed: code/serve.py is never imported, /sagemaker/serve.py is (starts.jsonl).
    assert "serve is the container's own module" in ran.stderr
    assert "module 'serve' has no attribute 'load'" in ran.stderr


def test_the_table_says_what_the_catalog_says() -> None:
    """Each is written down for itself: `servable check` reads the one, the local container the other."""
    read = json.loads(Path(user_code.__file__).with_name("image_modules.json").read_text())
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
    ran = run("", tmp_path, first="import json, email", files={file: "x = 1\n"})
    place, hidden = "/".join(Path(file).parts[-2:]), Path(file).stem
    assert f"CodeError: {place} hides the module {hidden}, " in ran.stderr.splitlines()[-1]


def _load(source: str, folder: Path, problems: Sequence[str] = ()) -> Handler:
    inference = folder / "inference.py"
    inference.write_text(source)
    return load_handler(inference, find_image_code("2.20"), problems)


def test_code_that_does_not_import_or_has_no_handler_is_refused(tmp_path: Path) -> None:
    for source in ["", "def input_handler(data, context): ..."]:
        with pytest.raises(CodeError, match="defines no handler; define handler"):
            _load(source, tmp_path)
    for source in ["def", "1 / 0", "import sys; sys.exit(3)"]:
        with pytest.raises(CodeError, match="code/inference.py cannot be imported: "):
            _load(source, tmp_path)


def test_a_failed_import_names_the_place_and_both_pythons(tmp_path: Path) -> None:
    (tmp_path / "transforms.py").write_text("\n\nimport nowhere_at_all\n")
    source = "import runpy\nrunpy.run_path(__file__.replace('inference', 'transforms'))"
    with pytest.raises(CodeError) as refused:
        _load(source, tmp_path)
    assert str(refused.value) == (
        "code/inference.py cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all' "
        f"(code/transforms.py, line 3; Python {platform.python_version()} of this computer, where the "
        "image has 3.12)"
    )


@pytest.mark.parametrize("source", ["import fast.core", "from fast import core"])
def test_a_module_of_another_python_is_named_with_its_file(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lib" / "fast" / "core.cpython-399-x86_64-linux-gnu.so"
    file.parent.mkdir(parents=True)
    file.touch()
    (file.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "lib")
    with pytest.raises(CodeError) as refused:
        _load(source, tmp_path)
    del sys.modules["fast"]
    assert f"; module fast.core: code/lib/fast/{file.name}; Python" in str(refused.value)


def test_packages_for_another_python_are_named_where_an_import_fails(tmp_path: Path) -> None:
    for source, said in [("import nowhere_at_all", True), ("1 / 0", False)]:
        with pytest.raises(CodeError) as refused:
            _load(source, tmp_path, ["code/lib/fast: is compiled for another Python"])
        assert ("\ncode/lib/fast: is compiled" in str(refused.value)) is said
    source = "def handler(d, c): return 1\ndef input_handler(d, c): ...\noutput_handler = handler"
    assert _load(source, tmp_path)(None, None) == 1  # type: ignore[arg-type]
