"""The same inputs give the same bytes; what is unpacked is what was packed."""

import gzip
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from model_packaging.archive import BLOCK_BYTES, GzipBlocks, pack
from model_packaging.inputs import ArchiveInputs, Servable

# A tree: names to contents, or to trees. Long names, since tar writes those in another way.
NAME = st.one_of(
    st.text("ab.é -~漢", min_size=1, max_size=4).filter(lambda name: name not in (".", "..")),
    st.text("ab", min_size=101, max_size=120).map(lambda name: name[:120]),
)
Content = dict[str, "bytes | Content"]
TREES: st.SearchStrategy[Content] = st.recursive(
    st.dictionaries(NAME, st.binary(max_size=2_000), max_size=3),
    lambda inner: st.dictionaries(NAME, st.one_of(st.binary(max_size=2_000), inner), max_size=3),
    max_leaves=6,
)


def made(folder: Path, content: Content, order: random.Random) -> None:
    """On the disk, in any order, at any time, by anyone."""
    folder.mkdir()
    names = list(content)
    order.shuffle(names)
    for name in names:
        path, inside = folder / name, content[name]
        if isinstance(inside, dict):
            made(path, inside, order)
        else:
            path.write_bytes(inside)
            path.chmod(order.choice([0o600, 0o644, 0o755, 0o777]))
        os.utime(path, (order.randrange(2**31), order.randrange(2**31)))
        if os.geteuid() == 0:
            os.chown(path, order.randrange(2**16), order.randrange(2**16))


def read(folder: Path) -> Content:
    inside = folder.iterdir()
    return {path.name: read(path) if path.is_dir() else path.read_bytes() for path in inside}


def archive(folder: Path, content: Content, seed: int) -> Path:
    (folder / "model").mkdir(parents=True)
    made(folder / "model" / "1", {**content, "saved_model.pb": b"graph"}, random.Random(seed))
    inputs = ArchiveInputs(servables=(Servable(name="m", folder=folder / "model"),))
    return pack(inputs, folder / "model.tar.gz").path


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(content=TREES)
def test_what_is_unpacked_is_what_was_packed(content: Content) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive(Path(folder) / "any", content, 0)) as opened:
            opened.extractall(Path(folder) / "out", filter="data")
        assert read(Path(folder) / "out" / "m" / "1") == {**content, "saved_model.pb": b"graph"}


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(content=TREES, seed=st.integers(0, 2**32))
def test_order_times_modes_and_owners_change_no_byte(content: Content, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first", Path(folder) / "second"
        found = archive(first, content, 0).read_bytes()
        assert found == archive(second, content, seed).read_bytes()


def gzipped(data: bytes, threads: int) -> bytes:
    file = io.BytesIO()
    with GzipBlocks(file, threads=threads) as packed:
        packed.write(data)
    return file.getvalue()


# Half of it compresses and half does not; it ends inside a block.
SEVERAL_BLOCKS = random.Random(0).randbytes(3 * BLOCK_BYTES) + b"weights " * 500_000


def test_neither_cores_nor_pieces_change_a_byte_of_what_python_reads() -> None:
    for threads in [2, 3, 4, 8]:
        assert gzipped(SEVERAL_BLOCKS, threads) == gzipped(SEVERAL_BLOCKS, 1)
    file = io.BytesIO()
    with GzipBlocks(file, threads=2) as packed:
        for start in range(0, len(SEVERAL_BLOCKS), 65_521):
            packed.write(SEVERAL_BLOCKS[start : start + 65_521])
    assert file.getvalue() == gzipped(SEVERAL_BLOCKS, 2)
    for size in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1]:
        assert gzip.decompress(gzipped(SEVERAL_BLOCKS[:size], 2)) == SEVERAL_BLOCKS[:size]


def test_gzip_itself_finds_the_archive_whole(inputs: ArchiveInputs, tmp_path: Path) -> None:
    pack(inputs, tmp_path / "a.tar.gz")
    assert subprocess.run(["gzip", "--test", tmp_path / "a.tar.gz"], check=False).returncode == 0


def test_locale_and_umask_change_no_byte(
    inputs: ArchiveInputs, version: Path, tmp_path: Path
) -> None:
    (version / "wörter 漢.txt").write_bytes(b"words")
    pack(inputs, tmp_path / "here.tar.gz")
    program = f"""import os; os.umask(0o077)
from pathlib import Path
from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs, Servable
folder = Path({str(inputs.servables[0].folder.parent)!r})
pack(ArchiveInputs(servables=(Servable(name="ranker", folder=folder / "model"),), code=folder / "code"),
     Path({str(tmp_path / "there.tar.gz")!r}))"""
    environment = {**os.environ, "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert (tmp_path / "there.tar.gz").read_bytes() == (tmp_path / "here.tar.gz").read_bytes()
