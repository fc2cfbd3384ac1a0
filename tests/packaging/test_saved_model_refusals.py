"""A SavedModel that TensorFlow Serving would not serve is refused: file, what is wrong, what to do."""

import shutil
import struct
from pathlib import Path

import pytest

from model_packaging.refusal import PackagingError
from model_packaging.saved_model import list_versions, read
from tests.packaging.conftest import Breakable

pytestmark = pytest.mark.long

AGAIN = "export it again, or copy it again"
SAVED_AGAIN = "export the SavedModel again, or copy it again"
SHARD = "variables/variables.data-00000-of-00001"


def refusal(version: Path) -> tuple[str, str, str]:
    """(the path inside the version folder, what is wrong, what to do)."""
    with pytest.raises(PackagingError) as caught:
        read(version)
    found = caught.value
    return found.path.relative_to(version).as_posix(), found.problem, found.remedy


def cut(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


def test_a_folder_without_version_or_graph_names_what_is_in_its_place(
    breakable: Breakable, tmp_path: Path
) -> None:
    version = breakable("keras")
    version.rename(version.with_name("latest"))
    with pytest.raises(
        PackagingError,
        match="keras: has no version folder named with digits only; rename keras/latest to keras/1",
    ):
        list_versions(version.parent)

    version = breakable("keras")
    (version / "saved_model.pb").unlink()
    assert refusal(version) == (".", "has no saved_model.pb", "export the SavedModel into it")
    for name, form in [
        ("model.h5", "a Keras file"),
        ("model.keras", "a Keras file"),
        ("model.ckpt-1.index", "a checkpoint"),
        ("model.ckpt-1.meta", "a TensorFlow 1 checkpoint"),
        ("saved_model.pbtxt", "a graph in text format"),
        ("frozen_graph.pb", "a graph without signatures"),
        ("model.tflite", "a TensorFlow Lite model"),
        ("model.onnx", "an ONNX model"),
        ("model.tar.gz", "an archive"),
    ]:
        version = breakable("keras")
        (version / "saved_model.pb").rename(version / name)
        assert refusal(version)[1] == f"has no saved_model.pb, but {name}, which is {form}"
    (tmp_path / "checkpoint").write_text("model_checkpoint_path: model.ckpt-1")
    with pytest.raises(PackagingError, match=r"TensorFlow 1 checkpoint: .*simple_save"):
        list_versions(tmp_path)


def test_a_damaged_saved_model_pb_says_what_is_wrong(breakable: Breakable) -> None:
    version = breakable("keras")
    cut(version / "saved_model.pb", 0)
    assert refusal(version) == ("saved_model.pb", "is empty", AGAIN)

    version = breakable("keras")
    size = (version / "saved_model.pb").stat().st_size
    cut(version / "saved_model.pb", size - 100)
    left = size - 100 - 6  # behind the schema version, the tag and the length
    problem = f"is truncated or damaged (field 2 is {left + 100} bytes long; {left} are left)"
    assert refusal(version) == ("saved_model.pb", problem, AGAIN)

    version = breakable("keras")
    (version / "saved_model.pb").write_bytes(b"a graph")
    remedy = "export the SavedModel again"
    assert refusal(version) == ("saved_model.pb", "is not a SavedModel", remedy)

    version = breakable("keras")
    (version / "saved_model.pb").write_bytes(b"\x08\x01")
    assert refusal(version)[1] == "is not a SavedModel: it contains no graph"


@pytest.mark.parametrize("name", ["keras", "module", "frozen", "builder"])
def test_a_saved_model_pb_cut_anywhere_is_refused(breakable: Breakable, name: str) -> None:
    version = breakable(name)
    whole = (version / "saved_model.pb").read_bytes()
    read_whole = []
    for size in {*range(1, 200), *range(200, len(whole), 97), len(whole) - 1}:
        (version / "saved_model.pb").write_bytes(whole[:size])
        try:
            read(version)
            read_whole.append(size)
        except PackagingError:
            pass
    assert read_whole == []


def test_a_git_lfs_pointer_is_refused_with_the_command(breakable: Breakable) -> None:
    for name in ["saved_model.pb", "variables/variables.index", SHARD]:
        version = breakable("keras")
        (version / name).write_text("version https://git-lfs.github.com/spec/v1\n")
        assert refusal(version)[1:] == (
            "is a Git LFS pointer, not the file itself",
            "run: git lfs pull",
        )


def test_a_graph_with_variables_needs_their_index_and_every_shard_whole(
    breakable: Breakable,
) -> None:
    for name in ["keras", "builder"]:
        version = breakable(name)
        (version / "variables" / "variables.index").unlink()
        problem = "does not exist, but the graph has variables"
        assert refusal(version) == ("variables/variables.index", problem, SAVED_AGAIN)

    version = breakable("frozen")
    shutil.rmtree(version / "variables", ignore_errors=True)
    assert read(version).variable_bytes == 0

    version = breakable("keras")
    (version / SHARD).unlink()
    problem = "does not exist, but variables.index refers to it"
    assert refusal(version) == (SHARD, problem, SAVED_AGAIN)

    version = breakable("module")
    size = (version / SHARD).stat().st_size
    cut(version / SHARD, size - 1)
    problem = f"is truncated: {size - 1:,} bytes, but variables.index refers to {size:,}"
    assert refusal(version) == (SHARD, problem, SAVED_AGAIN)


def test_a_damaged_index_is_refused_wherever_it_is_cut_or_changed(breakable: Breakable) -> None:
    version = breakable("keras")
    index = version / "variables" / "variables.index"
    whole = index.read_bytes()
    for size in range(len(whole)):
        index.write_bytes(whole[:size])
        path, problem, _ = refusal(version)
        assert (path, problem[:24]) == ("variables/variables.index", "is truncated or damaged ")

    version = breakable("keras")
    index = version / "variables" / "variables.index"
    whole = bytearray(index.read_bytes())
    whole[10] ^= 1
    index.write_bytes(whole)
    problem = "is truncated or damaged (the CRC of the block at byte 0 does not match)"
    assert refusal(version)[1] == problem
    index = version / "variables" / "variables.index"
    far = b"\x00\x00" + b"\xff\xff\xff\x7f" + b"\x20"
    footer = far.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    index.write_bytes(index.read_bytes()[:-48] + footer)
    assert "(a block of 32 bytes at byte 268435455 does not fit" in refusal(version)[1]


def test_a_missing_asset_serve_tag_or_signature_is_refused(breakable: Breakable) -> None:
    version = breakable("module")
    (version / "assets" / "words.txt").unlink()
    problem = "does not exist, but the graph reads it when it starts"
    assert refusal(version) == ("assets/words.txt", problem, SAVED_AGAIN)

    problem = "has no graph whose only tag is serve; its graphs are tagged gpu+train"
    remedy = "export it for serving, with the tag serve"
    assert refusal(breakable("train_only")) == ("saved_model.pb", problem, remedy)

    problem = "has no signature that a request could call"
    remedy = "export it with signatures of dense inputs, as Keras' model.export() does"
    assert refusal(breakable("unsigned")) == ("saved_model.pb", problem, remedy)
