"""The code's dependencies: wheels of the image's Python and platform, locked, and then no network."""

from pathlib import Path

import pytest

from model_packaging.dependencies.wheels import LOCK, build_lib_folder, fetch, lock, read_lock
from model_packaging.refusal import PackagingError
from tests.packaging.wheelhouse import wheel

pytestmark = pytest.mark.long

IMAGE_TAG = "cp312-cp312-manylinux_2_17_x86_64"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """fast: for three Pythons and another platform. plain: needs fast, and one more on old Pythons."""
    folder = tmp_path / "house"
    folder.mkdir()
    for tag in (
        IMAGE_TAG, "cp311-cp311-manylinux_2_17_x86_64", "cp313-cp313-manylinux_2_17_x86_64",
        "cp312-cp312-manylinux_2_17_aarch64",
    ):  # fmt: skip
        wheel(folder, "fast", tag=tag)
    wheel(folder, "plain", requires=("fast", "backport; python_version < '3.12'"))
    wheel(folder, "backport")
    wheel(folder, "macos", tag="cp312-cp312-macosx_11_0_arm64")
    return folder


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "requirements.txt").write_text("plain\n")
    return folder


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


def made(code: Path, wheels: Path, house: Path) -> list[str]:
    return [one.name for one in lock(code, python="3.12", wheels=wheels, find_links=house)]


def test_the_wheels_are_the_images_and_the_folder_that_becomes_lib_holds_them(
    code: Path, wheels: Path, house: Path, tmp_path: Path
) -> None:
    assert made(code, wheels, house) == [f"fast-1.0-{IMAGE_TAG}.whl", "plain-1.0-py3-none-any.whl"]
    lib = build_lib_folder(code, wheels=wheels, unpacked=tmp_path / "lib")
    assert lib is not None
    assert (lib / "fast.py").read_text() == f"TAG = {IMAGE_TAG!r}\n"


def test_what_is_not_wanted_or_not_locked_is_not_vendored(
    tmp_path: Path, code: Path, wheels: Path
) -> None:
    assert build_lib_folder(tmp_path, wheels=tmp_path, unpacked=tmp_path / "lib") is None
    with pytest.raises(PackagingError) as raised:
        build_lib_folder(code, wheels=wheels, unpacked=tmp_path / "lib")
    assert str(raised.value) == (
        f"{code}/requirements.txt: has no requirements.lock next to it; run `servable package ENV`"
    )


def test_a_lock_whose_wheels_or_requirements_changed_names_the_command(
    code: Path, wheels: Path, house: Path, tmp_path: Path
) -> None:
    made(code, wheels, house)
    plain = wheels / "plain-1.0-py3-none-any.whl"
    plain.write_bytes(b"another")
    with pytest.raises(PackagingError, match="is not on this computer"):
        build_lib_folder(code, wheels=wheels, unpacked=tmp_path / "lib")
    plain.unlink()
    with pytest.raises(
        PackagingError, match="plain-1.0-py3-none-any.whl is not on this computer; run"
    ):
        build_lib_folder(code, wheels=wheels, unpacked=tmp_path / "lib")
    (code / "requirements.txt").write_text("fast\n")
    with pytest.raises(
        PackagingError, match="is out of date: requirements.txt has changed since; run"
    ):
        build_lib_folder(code, wheels=wheels, unpacked=tmp_path / "lib")


def test_what_was_locked_is_fetched_again_and_nothing_newer(
    code: Path, wheels: Path, house: Path
) -> None:
    before = made(code, wheels, house)
    wheel(house, "plain", "2.0")
    for file in wheels.iterdir():
        file.unlink()
    fetch(code, python="3.12", wheels=wheels, find_links=house)
    assert sorted(file.name for file in wheels.iterdir()) == before


def test_a_package_without_a_wheel_for_the_image_is_named_and_keeps_the_old_lock(
    code: Path, wheels: Path, house: Path
) -> None:
    made(code, wheels, house)
    before = (code / LOCK).read_text()
    (code / "requirements.txt").write_text("macos\n")
    with pytest.raises(PackagingError):
        made(code, wheels, house)
    assert (code / LOCK).read_text() == before

    with pytest.raises(PackagingError, match=r"is not available as wheels for the image: .*macos"):
        made(code, wheels, house)


def test_empty_requirements_lock_nothing_and_a_changed_included_file_makes_the_lock_stale(
    code: Path, wheels: Path, house: Path
) -> None:
    (code / "requirements.txt").write_text("# nothing yet\n")
    made(code, wheels, house)
    assert read_lock(code) == []

    (code / "requirements.txt").write_text("-r more.txt\n")
    (code / "more.txt").write_text("fast\n")
    made(code, wheels, house)
    (code / "more.txt").write_text("plain\n")
    with pytest.raises(PackagingError, match="is out of date: requirements.txt has changed since"):
        read_lock(code)


def test_wheels_whose_files_leave_their_folder_or_clash_are_refused(
    code: Path, wheels: Path, house: Path, tmp_path: Path
) -> None:
    wheel(house, "evil", files={"../evil.py": "1"})
    (code / "requirements.txt").write_text("evil\n")
    made(code, wheels, house)
    with pytest.raises(PackagingError, match=r"contains a file outside its folder: ../evil.py"):
        build_lib_folder(code, wheels=wheels, unpacked=tmp_path / "lib")

    assert list((tmp_path / "lib").iterdir()) == []

    wheel(house, "clash", files={"fast.py/x.py": ""})
    (code / "requirements.txt").write_text("fast\nclash\n")
    made(code, wheels, house)
    with pytest.raises(
        PackagingError, match="has a file where this or a different wheel has a folder"
    ):
        build_lib_folder(code, wheels=wheels, unpacked=tmp_path / "lib")


def test_options_that_say_where_packages_come_from_are_followed(
    code: Path, wheels: Path, house: Path
) -> None:
    for place in ["{house}", "../house"]:
        said = f"--no-index\n--find-links {place.format(house=house)}\nfast\n"
        (code / "requirements.txt").write_text(said)
        assert len(lock(code, python="3.12", wheels=wheels)) == 1


def test_a_package_with_another_hash_than_the_requirement_allows_is_refused(
    code: Path, wheels: Path, house: Path
) -> None:
    (code / "requirements.txt").write_text(f"fast==1.0 \\\n  --hash=sha256:{'0' * 64}\n")
    with pytest.raises(
        PackagingError, match="requires a different hash of fast than fast-1.0-cp312"
    ):
        made(code, wheels, house)


def test_a_lock_that_was_not_written_by_us_or_cannot_be_is_a_sentence(
    code: Path, wheels: Path, house: Path
) -> None:
    made(code, wheels, house)
    written = (code / LOCK).read_text()
    for line in ["<<<<<<< HEAD", "fast-1.0-py3-none-any.whl", "../x.whl sha256:0"]:
        (code / LOCK).write_text(f"{written}{line}\n")
        with pytest.raises(
            PackagingError,
            match="line 6 is not a wheel name with its hash: .*; run `servable package",
        ):
            fetch(code, python="3.12", wheels=wheels, find_links=house)
    (code / LOCK).write_bytes(b"\xff\xfe")
    with pytest.raises(PackagingError, match="is out of date: requirements.txt has changed"):
        read_lock(code)
    (code / LOCK).unlink()
    (code / LOCK).mkdir()
    with pytest.raises(
        PackagingError, match="requirements.lock: cannot be read or written: Is a direct"
    ):
        made(code, wheels, house)
    (code / LOCK).rmdir()
    wheels.rename(wheels.with_name("other"))
    wheels.write_bytes(b"")
    with pytest.raises(PackagingError, match="wheels: cannot be read or written: File exists"):
        made(code, wheels, house)
