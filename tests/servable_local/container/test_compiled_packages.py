"""code/lib is for the image's Python; here another one imports the same versions."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from model_packaging.dependencies.wheels import unpack
from servable.serve.serve import prepare_variant
from servable_local.container.compiled_packages import provide_compiled_packages
from servable_tensors.archive import CompiledPackages
from tests.conftest import VALID, Environment
from tests.packaging.wheelhouse import installed_wheel, wheel

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
OURS = f"cp{HERE.replace('.', '')}"
OF_IMAGE = "cp399-cp399-manylinux_2_17_x86_64"  # a Python that runs nowhere
COMPILED = "fast/core.cpython-399-x86_64-linux-gnu.so"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index of pip's settings: a folder of wheels. The cache is this test's own."""
    (tmp_path / "house").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "house"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "house"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """code/lib as it is vendored: one compiled package, one pure, one for any Python 3."""
    wheels = [
        wheel(tmp_path, "fast", "1.5", OF_IMAGE, files={COMPILED: "machine code"}),
        wheel(tmp_path, "plain"),
        wheel(tmp_path, "stable", tag=f"cp311-abi3-manylinux_2_17_{platform.machine()}"),
    ]
    unpack(wheels, tmp_path / "code" / "lib")
    return tmp_path / "code"


def tags(packages: CompiledPackages) -> list[str]:
    """What the modules of the packages say that they are."""
    return [(path / "fast.py").read_text() for path in packages.paths]


@pytest.mark.long
def test_a_compiled_package_is_the_same_version_for_this_python(code: Path, house: Path) -> None:
    for version in ("1.4", "1.5", "1.6"):
        wheel(house, "fast", version, f"{OURS}-none-any", files={"v.txt": version})
    (folder,) = provide_compiled_packages(code).paths
    assert (folder / "v.txt").read_text() == "1.5"
    # What was fetched once needs no index.
    shutil.rmtree(house)
    found = provide_compiled_packages(code)
    assert (found.paths, tags(found)) == ((folder,), [f"TAG = '{OURS}-none-any'\n"])


@pytest.mark.long
def test_without_the_same_version_the_nearest_one_is_imported(code: Path, house: Path) -> None:
    for version in ("1.3", "1.6", "1.4"):
        wheel(house, "fast", version, f"{OURS}-none-any")
    found = provide_compiled_packages(code)
    (problem,) = found.problems
    assert [path.name for path in found.paths] == ["fast-1.4"]
    assert tags(found) == [f"TAG = '{OURS}-none-any'\n"]
    compiled = f"code/lib/{COMPILED}: fast 1.5 is compiled for Python 3.99; this computer runs"
    here = f"Python {platform.python_version()}, for which it has no wheel; "
    assert problem.startswith(f"{compiled} {here}")
    assert "fast-1.4 is imported instead; set a version in requirements.txt that has " in problem


@pytest.mark.long
def test_what_could_not_be_fetched_is_named_and_leaves_nothing(
    code: Path, house: Path, tmp_path: Path
) -> None:
    found = provide_compiled_packages(code)
    (problem,) = found.problems
    assert found.paths == ()
    assert problem.startswith(f"code/lib/{COMPILED}: fast 1.5 is compiled for Python 3.99; ")
    assert "could not be fetched (pip: ERROR: No matching distribution found for fast" in problem
    (of_this_python,) = (tmp_path / "cache" / "servable" / "packages").iterdir()
    assert list(of_this_python.iterdir()) == []


def test_a_compiled_module_of_no_package_is_named(tmp_path: Path) -> None:
    own = tmp_path / "own.cpython-399-x86_64-linux-gnu.so"
    own.touch()
    (problem,) = provide_compiled_packages(tmp_path).problems
    said = f"code/{own.name}: is compiled for Python 3.99 and is not part of a"
    assert problem.startswith(said)


def test_a_name_that_is_none_is_not_asked_for(code: Path, house: Path) -> None:
    metadata = code / "lib" / "fast-1.5.dist-info" / "METADATA"
    text = metadata.read_text()
    for name in ["..", "fast/../..", "-r"]:
        metadata.write_text(text.replace("Name: fast", f"Name: {name}"))
        (problem,) = provide_compiled_packages(code).problems
        assert "(pip: " not in problem


def test_a_tag_that_is_none_is_passed_over(code: Path, house: Path) -> None:
    for tag in ["nonsense", "a-b", "", "a-b-c-d", "cp399-none"]:
        (code / "lib" / "fast-1.5.dist-info" / "WHEEL").write_text(f"Tag: {tag}\n")
        assert provide_compiled_packages(code).paths == ()


USED = """
import importlib, sys
from pathlib import Path
from servable_local.container.compiled_packages import provide_compiled_packages
from servable_local.container.gunicorn.user_code import restrict_imports
packages = provide_compiled_packages(Path("code"))
restrict_imports([*packages.paths, Path("code/lib")])
print(importlib.import_module(sys.argv[1]).__file__)
"""


@pytest.mark.parametrize("module", ["PIL._imaging", "orjson.orjson"])
@pytest.mark.long
def test_a_real_package_of_another_python_works_here(
    module: str, tmp_path: Path, house: Path
) -> None:
    pytest.importorskip(module)  # orjson is no requirement: with it, JSON is read by it everywhere
    name = "pillow" if module == "PIL._imaging" else "orjson"
    of_image = installed_wheel(tmp_path, name, "3.99", "x86_64")
    installed_wheel(house, name, HERE, platform.machine())
    unpack([of_image], tmp_path / "code" / "lib")
    ran = subprocess.run(
        [sys.executable, "-c", USED, module],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert ran.stdout.startswith(str(tmp_path / "cache")), ran.stderr


@pytest.mark.long
@pytest.mark.skipif(HERE == "3.12", reason="code/lib is for this Python")
def test_serve_asks_the_index_that_requirements_name(
    environment: Environment, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (project / "house").mkdir()
    for python in ("cp312", OURS):
        wheel(project / "house", "fast", "1.5", f"{python}-none-any")
    (project / "code" / "requirements.txt").write_text("--no-index\n--find-links ../house\nfast\n")
    prepare_variant(environment(VALID.replace('"2.20"', '"2.20"\ncode = "code"')))
    (fetched,) = (tmp_path / "cache").glob("servable/packages/*/fast-1.5/fast.py")
    assert OURS in fetched.read_text()
