"""An archive that is there already: listed, and held against what the container wants."""

import errno
import gzip
import hashlib
import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from model_packaging import existing_archive, verification
from model_packaging.archive import pack
from model_packaging.existing_archive import list_members
from model_packaging.inputs import ArchiveInputs, Servable
from model_packaging.refusal import PackagingError
from model_packaging.verification import Verified, verify
from tests.conftest import RANKER
from tests.exports.exports import MODELS
from tests.packaging.conftest import refusal


@pytest.fixture
def good(project: Path, tmp_path: Path) -> Path:
    """A small export with a handler."""
    servable = Servable(name="ranker", folder=MODELS / "tf1-simple")
    inputs = ArchiveInputs(servables=(servable,), code=project / "code")
    return pack(inputs, tmp_path / "good.tar.gz").path


Change = Callable[[tarfile.TarFile], None]


def changed(good: Path, *, without: str = "", add: Change | None = None) -> Path:
    """The archive as somebody else's tar would have written it."""
    target = good.with_name("changed.tar.gz")
    with tarfile.open(good) as old, tarfile.open(target, "w:gz") as new:
        for one in old:
            if not (without and one.name.startswith(without)):
                new.addfile(one, old.extractfile(one) if one.isreg() else None)
        if add:
            add(new)
    return target


def file(name: str, content: bytes = b"", **said: object) -> Change:
    def add(tar: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        for key, value in said.items():
            setattr(member, key, value)
        tar.addfile(member, io.BytesIO(content))

    return add


def verified(archive: Path) -> Verified:
    return verify(archive, python="3.12", provided={"numpy"})


def problems(archive: Path) -> tuple[str, ...]:
    return verified(archive).problems


def test_what_we_packed_is_verified_with_hash_signatures_and_entries(good: Path) -> None:
    assert problems(good) == ()
    assert verified(good).sha256 == hashlib.sha256(good.read_bytes()).hexdigest()
    ((model, number, info),) = verified(good).versions
    assert (model, number, "x" in info.signatures["serving_default"].inputs) == ("ranker", 1, True)
    with tarfile.open(good) as opened:
        assert [one.name for one in list_members(good)] == opened.getnames()


def test_versions_at_the_root_are_found(tmp_path: Path) -> None:
    servable = Servable(name="ranker", folder=RANKER, at_root=True)
    packed = pack(ArchiveInputs(servables=(servable,)), tmp_path / "a.tar.gz")
    assert [(model, number) for model, number, _ in verified(packed.path).versions] == [("", 1)]


@pytest.mark.parametrize(("member", "said"), [
    (file("../up", b"x"), "../up: is a file with .. in its name; pack only files and folders"),
    (file("/etc/x", b"x"), "/etc/x: is a file with an absolute name; pack only files and folders"),
    (file("ranker/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
     "ranker/link: is a link to /etc/passwd; pack only files and folders"),
    (file("pipe", type=tarfile.FIFOTYPE), "pipe: is a device or pipe; pack only files"),
    (file("ranker/1/saved_model.pb", b"x"),
     "ranker/1/saved_model.pb: is a second file of that name; pack only files"),
])  # fmt: skip
def test_what_reaches_outside_or_hides_is_a_problem(good: Path, member: Change, said: str) -> None:
    (problem,) = problems(changed(good, add=member))
    assert problem.startswith(said)


def test_a_missing_model_a_graph_elsewhere_and_truncated_variables_are_problems(good: Path) -> None:
    (problem,) = problems(changed(good, without="ranker"))
    assert "has no <version>/saved_model.pb with a numeric version" in problem
    (problem,) = problems(changed(good, without="ranker/1/variables/variables.index"))
    assert problem.startswith("ranker/1/variables/variables.index: does not exist, but the graph")

    shard = "ranker/1/variables/variables.data-00000-of-00001"
    (problem,) = problems(changed(good, without=shard, add=file(shard, b"short")))
    assert problem.startswith(f"{shard}: is truncated: 5 bytes, but variables.index refers to")
    for place, remedy in [
        ("", "move it to 1/saved_model.pb"),
        ("export/", "rename export to 1"),
        ("scorer/v2/", "rename scorer/v2 to scorer/2"),
    ]:
        (problem,) = problems(changed(good, add=file(f"{place}saved_model.pb", b"x")))
        assert problem == f"{place}saved_model.pb: not in a folder named with digits only; {remedy}"


def test_code_that_fails_in_the_image_or_holds_secrets_is_a_problem(good: Path) -> None:
    code = b"import tensorflow\ndef handler(data, context): ...\n"
    (problem,) = problems(changed(good, without="code", add=file("code/inference.py", code)))
    assert problem.startswith("code/inference.py:1: ")

    (problem,) = problems(changed(good, without="code", add=file("code/handler.py", b"x = 1\n")))
    assert problem.startswith("code/: has no inference.py, and the image reads nothing else there")

    (problem,) = problems(changed(good, add=file("code/.env", b"TOKEN=1\n")))
    assert problem.startswith("code/.env: looks like an environment variable file")
    archive = changed(good, add=file("code/requirements.txt", b"/home/me/a.whl\n"))
    local = "code/requirements.txt:1: names the local path /home/me/a.whl"
    assert problems(archive)[-1].startswith(local)
    for switch in ["code/lib/one.py", "code/requirements.txt"]:
        (problem,) = problems(changed(good, without="code", add=file(switch)))
        assert "exists without code/inference.py" in problem


def test_code_that_the_image_never_reads_is_a_problem_unless_it_is_only_a_name(good: Path) -> None:
    for name in (
        "model_b/code/inference.py", "1/code/inference.py", "export/code/inference.py",
        "Code/inference.py", "code/Inference.py", "inference.py", "src/transforms.py",
        "model_b/code/requirements.txt", "CODE/requirements.txt",
    ):  # fmt: skip
        right = f"code/{name.rpartition('/')[2].lower()}"
        (problem,) = problems(changed(good, add=file(name, b"def handler(data, context): ...\n")))
        only = f"the image reads only {right} at the archive's root"
        assert problem == f"{name}: {only}; move it to {right}"
    for name in ["code/pkg/inference.py", "code/lib/pkg/inference.py", "1/assets/inference.py"] + [
        "1/assets.extra/requirements.txt",
        "docs/requirements.txt",
    ]:
        assert problems(changed(good, add=file(name, b"x = 1\n"))) == ()


def pack_export(name: str, tmp_path: Path, change: Callable[[Path], None] | None = None) -> Path:
    """An archive of one of the exports, with version 1 at its root."""
    folder = Path(shutil.copytree(MODELS / name, tmp_path / name))
    if change:
        change(folder / "1")
    target = tmp_path / "export.tar.gz"
    with tarfile.open(target, "w:gz") as tar:
        tar.add(folder, ".")
    return target


def test_variables_that_nothing_restores_are_a_problem(tmp_path: Path) -> None:
    (problem,) = problems(pack_export("keras-saved", tmp_path))
    assert problem.startswith(
        "1/saved_model.pb: signature 'serving_default' reads the variables sequential/dense/bias, "
        "sequential/dense/kernel that nothing restores or initializes: its requests fail; "
        "export a Keras model with model.export"
    )


def test_variables_are_verified_as_check_does(tmp_path: Path) -> None:
    def exchange(version: Path) -> None:
        shutil.rmtree(version / "variables")
        shutil.copytree(MODELS / "keras-fixed" / "1" / "variables", version / "variables")

    (problem,) = problems(pack_export("keras-open", tmp_path, exchange))
    assert problem.startswith("1/variables: 'variables/0/.ATTRIBUTES/VARIABLE_VALUE' has the shape")


def test_a_flipped_bit_in_the_variables_is_a_problem(tmp_path: Path) -> None:
    def flip(version: Path) -> None:
        data = version / "variables" / "variables.data-00000-of-00001"
        damaged = bytearray(data.read_bytes())
        damaged[3] ^= 1
        data.write_bytes(damaged)

    (problem,) = problems(pack_export("keras-open", tmp_path, flip))
    assert "the checksum of 'variables/0/" in problem


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = pack_export("keras-open", tmp_path)
    assert verified(archive).not_looked_at == (verification.NOT_LOOKED_AT,)
    monkeypatch.setattr(verification, "MOST_CHECKED_BYTES", 1)
    assert verified(archive).not_looked_at[0] == "the checksums of 1/variables, which are large"


def test_a_key_to_name_and_an_installation_at_start_is_warned(tmp_path: Path, good: Path) -> None:
    (warning,) = verified(pack_export("module-signatures", tmp_path)).warnings
    assert warning.startswith("1: has no signature serving_default, which requests without")
    found = verified(changed(good, add=file("code/requirements.txt", b"plain\n")))
    assert found.warnings[0].startswith("code/requirements.txt: is installed by pip whenever")


def test_an_archive_that_is_cut_short_or_damaged_is_refused(good: Path, tmp_path: Path) -> None:
    for bytes_left in [0, 1, 10, 2_000]:
        cut = shutil.copyfile(good, good.with_name("cut.tar.gz"))
        cut.write_bytes(good.read_bytes()[:bytes_left])
        assert "is not a complete .tar.gz" in refusal(verified, cut)

    whole = bytearray(gzip.decompress(good.read_bytes()))
    second = 512  # behind the header of code/, which has no content
    whole[second + 148 : second + 156] = b"9" * 8
    damaged = good.with_name("damaged.tar.gz")
    damaged.write_bytes(gzip.compress(bytes(whole)))
    assert "is not a complete .tar.gz (damaged header: " in refusal(list_members, damaged)

    content = bytearray(good.read_bytes())
    content[-6] ^= 1
    good.write_bytes(content)
    assert "is not a complete .tar.gz" in refusal(verified, good)

    (tmp_path / "a.tar.gz").write_bytes(b"no archive")
    with pytest.raises(
        PackagingError, match=r"a.tar.gz: is not a complete .tar.gz .*; pack it again"
    ):
        verified(tmp_path / "a.tar.gz")


def test_any_name_is_listed_on_one_line_at_any_depth_or_cannot_be_unpacked(good: Path) -> None:
    member = list_members(changed(good, add=file("a\nb\x1b[31m\udcff")))[-1]
    assert member.display_name == r"a\nb\x1b[31m\udcff"
    archive = changed(good, add=file("1/" + "a/" * 1500 + "b"))
    assert verified(archive).members[-1].name.endswith("a/b")
    archive = changed(good, add=file("1/" + "a" * 300))
    assert "a cannot be unpacked: File name too long; pack it again" in refusal(verified, archive)


def test_a_full_disk_is_said_of_the_folder_for_temporary_files(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(existing_archive, "_write_member", full)
    assert "cannot be unpacked: No space left on device; make room" in refusal(verified, good)
