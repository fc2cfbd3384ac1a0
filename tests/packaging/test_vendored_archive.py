"""An archive with locked packages: the image's wheels inside, whatever Python packed it."""

import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging.archive import pack
from model_packaging.dependencies import build_lib_folder, lock
from model_packaging.inputs import ArchiveInputs, Servable, compute_key
from model_packaging.refusal import PackagingError
from tests.conftest import RANKER
from tests.packaging.wheelhouse import wheel

FAST = "cp312-cp312-manylinux_2_17_x86_64"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> ArchiveInputs:
    """examples/ranker with two locked packages, one of them made for each Python."""
    folder = tmp_path_factory.mktemp("locked")
    house, code = folder / "house", folder / "code"
    house.mkdir()
    code.mkdir()
    for tag in (FAST, "cp311-cp311-manylinux_2_17_x86_64"):
        wheel(house, "fast", tag=tag)
    wheel(house, "plain", requires=("fast",))
    (code / "inference.py").write_text("import plain\ndef handler(data, context): ...\n")
    (code / "requirements.txt").write_text("plain\n")
    lock(code, python="3.12", wheels=folder / "wheels", find_links=house)
    lib = build_lib_folder(code, wheels=folder / "wheels", unpacked=folder / "unpacked")
    return ArchiveInputs(servables=(Servable(name="ranker", folder=RANKER),), code=code, lib=lib)


@pytest.fixture
def inputs(locked: ArchiveInputs, tmp_path: Path) -> ArchiveInputs:
    """A copy to change."""
    assert locked.code is not None
    assert locked.lib is not None
    code = shutil.copytree(locked.code, tmp_path / "code")
    return replace(locked, code=code, lib=shutil.copytree(locked.lib, tmp_path / "lib"))


@pytest.fixture(scope="module")
def archive(locked: ArchiveInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(locked, tmp_path_factory.mktemp("packed") / "model.tar.gz").path


def test_both_packages_are_inside_for_the_image_and_requirements_are_not(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        module = opened.extractfile("code/lib/fast.py")
        assert module is not None
        assert module.read().decode() == f"TAG = {FAST!r}\n"
    with tarfile.open(archive) as opened:
        assert {"code/lib/fast.py", "code/lib/plain.py"} <= set(opened.getnames())
    with tarfile.open(archive) as opened:
        assert [name for name in opened.getnames() if "requirements" in name] == []


def test_another_wheel_makes_another_archive_and_a_lib_beside_it_is_refused(
    inputs: ArchiveInputs,
) -> None:
    before = compute_key(inputs)
    assert inputs.lib is not None
    (inputs.lib / "fast.py").write_text("TAG = 'other'\n")
    assert compute_key(inputs) != before

    assert inputs.code is not None
    (inputs.code / "lib").mkdir()
    with pytest.raises(PackagingError, match="needs the same folder; remove one of them"):
        inputs.build_tree()
