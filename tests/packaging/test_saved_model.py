"""A SavedModel is read without TensorFlow, or refused: file, what is wrong, what to do.

tests/packaging/test_against_tensorflow.py asks TensorFlow what it reads.
"""

import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import TensorInfo, list_versions, read
from servable_tensors import wire
from servable_tensors.wire import encode_varint
from tests.exports.exports import MODELS

RANKER = Path(__file__).parents[2] / "examples" / "ranker" / "model" / "1"
# A table of words, as TensorFlow 2 exports it; its other signature takes bfloat16 of any rank.
VOCABULARY = Path(__file__).with_name("vocabulary")
AGAIN = "export it again, or copy it again"
SAVED_AGAIN = "export the SavedModel again, or copy it again"
SHARD = "variables/variables.data-00000-of-00001"
Breakable = Callable[..., Path]


@pytest.fixture
def breakable(tmp_path: Path) -> Breakable:
    """`breakable("keras-open")` copies that export's version folder, each time to a new place."""

    def copied(name: str = "keras-open") -> Path:
        source = VOCABULARY if name == "vocabulary" else MODELS / name
        place = Path(tempfile.mkdtemp(dir=tmp_path)) / name / "1"
        return Path(shutil.copytree(source / "1", place))

    return copied


def test_assets_warm_up_requests_tags_and_types_are_read(breakable: Breakable) -> None:
    info = read(VOCABULARY / "1")
    assert info.assets == ("words.txt",)
    assert info.signatures["anything"].inputs["any"].dtype == "bfloat16"
    assert info.signatures["anything"].inputs["any"].shape is None
    version = breakable()
    assert not read(version).has_warm_up
    (version / "assets.extra").mkdir()
    (version / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"")
    assert read(version).has_warm_up
    ranker = read(RANKER)
    assert ranker.tags == {"serve"}
    told = ranker.signatures["serving_default"].inputs["feat_ids"]
    assert told == TensorInfo(name="serving_default_feat_ids:0", dtype="int64", shape=(None, 39))


def test_reading_imports_neither_tensorflow_nor_numpy() -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom model_packaging.saved_model.reading import read\n"
        f"read(Path({str(RANKER)!r}))\n"
        "print([name for name in ('tensorflow', 'numpy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.long
def test_a_constant_of_a_gigabyte_is_stepped_over(tmp_path: Path) -> None:
    """One node with a huge attribute, in a sparse file; the reader may use 100 MiB more."""
    whole = (MODELS / "tf1-examples" / "1" / "saved_model.pb").read_bytes()
    size = 1 << 30
    node = b"\x0a\x01n\x12\x05Const\x2a" + encode_varint(size)
    graph = b"\x12" + encode_varint(
        len(whole_graph := b"\x0a" + encode_varint(len(node) + size) + node) + size
    )
    meta = whole[whole.index(b"\x12") :]
    start = 2 + next(at for at, byte in enumerate(meta[1:]) if byte < 0x80)
    rest = meta[start:]
    header = b"\x08\x01\x12" + encode_varint(len(graph) + len(whole_graph) + size + len(rest))
    file = tmp_path / "1" / "saved_model.pb"
    file.parent.mkdir()
    with file.open("wb") as opened:
        opened.write(header + graph + whole_graph)
        opened.seek(size, 1)
        opened.write(rest)
    code = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from model_packaging.saved_model.reading import read\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"assert read(Path({str(file.parent)!r})).signatures\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) * 1024 <= 100 << 20


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
    version = breakable()
    version.rename(version.with_name("latest"))
    renamed = "named with digits only; rename keras-open/latest to keras-open/1"
    with pytest.raises(PackagingError, match=f"has no version folder {renamed}"):
        list_versions(version.parent)

    version = breakable()
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
        version = breakable()
        (version / "saved_model.pb").rename(version / name)
        assert refusal(version)[1] == f"has no saved_model.pb, but {name}, which is {form}"
    (tmp_path / "checkpoint").write_text("model_checkpoint_path: model.ckpt-1")
    with pytest.raises(PackagingError, match=r"TensorFlow 1 checkpoint: .*simple_save"):
        list_versions(tmp_path)


def test_a_damaged_saved_model_pb_says_what_is_wrong(breakable: Breakable) -> None:
    version = breakable()
    cut(version / "saved_model.pb", 0)
    assert refusal(version) == ("saved_model.pb", "is empty", AGAIN)

    version = breakable()
    size = (version / "saved_model.pb").stat().st_size
    cut(version / "saved_model.pb", size - 100)
    left = size - 100 - 6  # behind the schema version, the tag and the length
    problem = f"is truncated or damaged (field 2 is {left + 100} bytes long; {left} are left)"
    assert refusal(version) == ("saved_model.pb", problem, AGAIN)

    version = breakable()
    (version / "saved_model.pb").write_bytes(b"a graph")
    remedy = "export the SavedModel again"
    assert refusal(version) == ("saved_model.pb", "is not a SavedModel", remedy)

    version = breakable()
    (version / "saved_model.pb").write_bytes(b"\x08\x01")
    assert refusal(version)[1] == "is not a SavedModel: it contains no graph"


@pytest.mark.parametrize("name", [
    "tf1-simple",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("vocabulary", "tf1-examples")),
])  # fmt: skip
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
        version = breakable()
        (version / name).write_text("version https://git-lfs.github.com/spec/v1\n")
        given = refusal(version)[1:]
        assert given == ("is a Git LFS pointer, not the file itself", "run: git lfs pull")


def test_a_graph_with_variables_needs_an_index_and_every_shard_whole(breakable: Breakable) -> None:
    for name in ["keras-open", "tf1-simple"]:
        version = breakable(name)
        (version / "variables" / "variables.index").unlink()
        problem = "does not exist, but the graph has variables"
        assert refusal(version) == ("variables/variables.index", problem, SAVED_AGAIN)

    assert read(breakable("tf1-examples")).variable_bytes == 0

    version = breakable()
    (version / SHARD).unlink()
    problem = "does not exist, but variables.index refers to it"
    assert refusal(version) == (SHARD, problem, SAVED_AGAIN)

    version = breakable("vocabulary")
    size = (version / SHARD).stat().st_size
    cut(version / SHARD, size - 1)
    problem = f"is truncated: {size - 1:,} bytes, but variables.index refers to {size:,}"
    assert refusal(version) == (SHARD, problem, SAVED_AGAIN)


def test_a_damaged_index_is_refused_wherever_it_is_cut_or_changed(breakable: Breakable) -> None:
    version = breakable("vocabulary")
    index = version / "variables" / "variables.index"
    whole = index.read_bytes()
    for size in range(len(whole)):
        index.write_bytes(whole[:size])
        path, problem, _ = refusal(version)
        assert (path, problem[:24]) == ("variables/variables.index", "is truncated or damaged ")

    version = breakable()
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


def test_a_missing_asset_or_signature_is_refused(breakable: Breakable) -> None:
    version = breakable("vocabulary")
    (version / "assets" / "words.txt").unlink()
    problem = "does not exist, but the graph reads it when it starts"
    assert refusal(version) == ("assets/words.txt", problem, SAVED_AGAIN)
    problem = "has no signature that a request could call"
    remedy = "export it with signatures of dense inputs, as Keras' model.export() does"
    assert refusal(breakable("module-unsigned")) == ("saved_model.pb", problem, remedy)


def test_the_tags_in_a_refusal_are_few(tmp_path: Path) -> None:
    cases: list[tuple[list[list[str]], str]] = [
        ([["train"]], "train"),
        ([["train", "gpu"], []], "gpu+train, nothing"),
        ([[]] * 300, "nothing"),
        ([[f"t{number}"] for number in range(5)], "t0, t1, t2, t3, t4"),
        ([[f"t{number}"] for number in range(6)], "t0, t1, t2, t3, t4 and 1 more"),
        ([["x" * 1_000]], "x" * 100),
    ]
    for tags, shown in cases:  # of a graph each
        content = b"\x08\x01"
        for some in tags:
            message = wire.MetaGraphDef(meta_info_def={"tags": some})
            graph = message.SerializeToString() if some else b""
            content += b"\x12" + encode_varint(len(graph)) + graph
        (tmp_path / "saved_model.pb").write_bytes(content)
        with pytest.raises(PackagingError) as refused:
            read(tmp_path)
        assert refused.value.remedy == "export it for serving, with the tag serve"
        said = "has no graph whose only tag is serve; its graphs are tagged "
        assert refused.value.problem == said + shown
