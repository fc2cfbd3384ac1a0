"""The code's dependencies: wheels of the image's Python and platform, locked, and then no network."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from model_packaging.dependencies.wheels import LOCK, build_lib_folder, fetch, lock, read_lock
from tests.packaging.conftest import refusal
from tests.packaging.wheelhouse import wheel

pytestmark = pytest.mark.long

IMAGE_TAG = "cp312-cp312-manylinux_2_17_x86_64"


@dataclass
class Packages:
    """Code with requirements, and an index of wheels that it may lock."""

    folder: Path

    def __post_init__(self) -> None:
        names = ("house", "code", "wheels")
        self.house, self.code, self.wheels = (self.folder / name for name in names)
        self.lock_file = self.code / LOCK

    def require(self, text: str) -> None:
        (self.code / "requirements.txt").write_text(text)

    def lock(self) -> list[str]:
        wheels = lock(self.code, python="3.12", wheels=self.wheels, find_links=self.house)
        return [one.name for one in wheels]

    def fetch(self) -> None:
        fetch(self.code, python="3.12", wheels=self.wheels, find_links=self.house)

    def vendor(self) -> Path | None:
        return build_lib_folder(self.code, wheels=self.wheels, unpacked=self.folder / "lib")


@pytest.fixture
def packages(tmp_path: Path) -> Packages:
    """fast: for three Pythons and another platform. plain: needs fast, and one more on old Pythons."""
    made = Packages(tmp_path)
    made.house.mkdir()
    for platform in ("cp312-cp312-{}_x86_64", "cp311-cp311-{}_x86_64", "cp313-cp313-{}_x86_64",
                     "cp312-cp312-{}_aarch64"):  # fmt: skip
        wheel(made.house, "fast", tag=platform.format("manylinux_2_17"))
    wheel(made.house, "plain", requires=("fast", "backport; python_version < '3.12'"))
    wheel(made.house, "backport")
    wheel(made.house, "macos", tag="cp312-cp312-macosx_11_0_arm64")
    made.code.mkdir()
    made.require("plain\n")
    return made


def test_the_wheels_are_the_images_and_the_folder_for_lib_holds_them(packages: Packages) -> None:
    assert packages.lock() == [f"fast-1.0-{IMAGE_TAG}.whl", "plain-1.0-py3-none-any.whl"]
    lib = packages.vendor()
    assert lib is not None
    assert (lib / "fast.py").read_text() == f"TAG = {IMAGE_TAG!r}\n"


def test_what_is_not_wanted_or_not_locked_is_not_vendored(packages: Packages) -> None:
    folder = packages.folder
    assert build_lib_folder(folder, wheels=folder, unpacked=folder / "lib") is None
    assert refusal(packages.vendor) == (
        f"{packages.code}/requirements.txt: has no requirements.lock next to it; "
        "run `servable package ENV`"
    )


def test_a_lock_whose_wheels_or_requirements_changed_names_the_command(packages: Packages) -> None:
    packages.lock()
    plain = packages.wheels / "plain-1.0-py3-none-any.whl"
    plain.write_bytes(b"another")
    assert "is not on this computer" in refusal(packages.vendor)
    plain.unlink()
    assert f"{plain.name} is not on this computer; run" in refusal(packages.vendor)
    packages.require("fast\n")
    stale = "is out of date: requirements.txt has changed since; run"
    assert stale in refusal(packages.vendor)


def test_what_was_locked_is_fetched_again_and_nothing_newer(packages: Packages) -> None:
    before = packages.lock()
    wheel(packages.house, "plain", "2.0")
    for file in packages.wheels.iterdir():
        file.unlink()
    packages.fetch()
    assert sorted(file.name for file in packages.wheels.iterdir()) == before


def test_a_package_without_a_wheel_is_named_and_keeps_the_old_lock(packages: Packages) -> None:
    packages.lock()
    before = packages.lock_file.read_text()
    packages.require("macos\n")
    said = refusal(packages.lock)
    assert re.search("is not available as wheels for the image: .*macos", said)
    assert packages.lock_file.read_text() == before


def test_empty_requirements_lock_nothing_and_a_changed_included_file_makes_the_lock_stale(
    packages: Packages,
) -> None:
    packages.require("# nothing yet\n")
    packages.lock()
    assert read_lock(packages.code) == []
    packages.require("-r more.txt\n")
    (packages.code / "more.txt").write_text("fast\n")
    packages.lock()
    (packages.code / "more.txt").write_text("plain\n")
    stale = "is out of date: requirements.txt has changed since"
    assert stale in refusal(read_lock, packages.code)


def test_wheels_whose_files_leave_their_folder_or_clash_are_refused(packages: Packages) -> None:
    wheel(packages.house, "evil", files={"../evil.py": "1"})
    packages.require("evil\n")
    packages.lock()
    assert "contains a file outside its folder: ../evil.py" in refusal(packages.vendor)
    assert list((packages.folder / "lib").iterdir()) == []
    wheel(packages.house, "clash", files={"fast.py/x.py": ""})
    packages.require("fast\nclash\n")
    packages.lock()
    clash = "has a file where this or a different wheel has a folder"
    assert clash in refusal(packages.vendor)


def test_options_that_say_where_packages_come_from_are_followed(packages: Packages) -> None:
    for place in [packages.house, "../house"]:
        packages.require(f"--no-index\n--find-links {place}\nfast\n")
        assert len(lock(packages.code, python="3.12", wheels=packages.wheels)) == 1


def test_a_package_with_another_hash_than_its_requirement_is_refused(packages: Packages) -> None:
    packages.require(f"fast==1.0 \\\n  --hash=sha256:{'0' * 64}\n")
    different = "requires a different hash of fast than fast-1.0-cp312"
    assert different in refusal(packages.lock)


def test_a_lock_that_was_not_written_by_us_or_cannot_be_is_a_sentence(packages: Packages) -> None:
    packages.lock()
    file, wheels = packages.lock_file, packages.wheels
    written = file.read_text()
    problem = "line 6 is not a wheel name with its hash: .*; run `servable package"
    for line in ["<<<<<<< HEAD", "fast-1.0-py3-none-any.whl", "../x.whl sha256:0"]:
        file.write_text(f"{written}{line}\n")
        assert re.search(problem, refusal(packages.fetch))
    file.write_bytes(b"\xff\xfe")
    stale = "is out of date: requirements.txt has changed"
    assert stale in refusal(read_lock, packages.code)
    file.unlink()
    file.mkdir()
    unwritable = "requirements.lock: cannot be read or written: Is a direct"
    assert unwritable in refusal(packages.lock)
    file.rmdir()
    wheels.rename(wheels.with_name("other"))
    wheels.write_bytes(b"")
    assert "wheels: cannot be read or written: File exists" in refusal(packages.lock)
