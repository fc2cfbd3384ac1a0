"""The key: everything that decides the archive's content, read once."""

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging import inputs as hashed
from model_packaging.inputs import ArchiveInputs, compute_key
from model_packaging.tree import Entry


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / ".servable"


@pytest.fixture
def settled(inputs: ArchiveInputs, monkeypatch: pytest.MonkeyPatch) -> ArchiveInputs:
    """Inputs that were last written longer ago than the step of the disk's clock."""
    time.sleep(0.05)
    monkeypatch.setattr(hashed, "GRANULARITY_SECONDS", 0.02)
    return inputs


def test_the_key_changes_with_name_bytes_and_folders_and_not_with_a_time(
    inputs: ArchiveInputs, version: Path
) -> None:
    other = replace(inputs, servables=(replace(inputs.servables[0], name="other"),))
    keys = [compute_key(other), compute_key(inputs)]
    os.utime(version / "saved_model.pb", (1, 1))
    assert compute_key(inputs) == keys[-1]
    (version / "assets").mkdir()
    keys.append(compute_key(inputs))
    (version / "saved_model.pb").write_bytes(b"a grapH")
    keys.append(compute_key(inputs))
    assert len(set(keys)) == 4


def test_the_key_is_the_same_with_a_cache_and_unchanged_files_are_not_read_again(
    settled: ArchiveInputs, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = compute_key(settled)
    assert [compute_key(settled, cache=cache) for _ in range(2)] == [before] * 2
    monkeypatch.delattr(hashed, "_hash_entry")  # nothing is read again
    assert compute_key(settled, cache=cache) == before


def test_a_changed_file_alone_is_read_again_also_under_the_same_size_and_time(
    settled: ArchiveInputs, version: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = version / "saved_model.pb"
    before, status = compute_key(settled, cache=cache), graph.stat()
    graph.write_bytes(b"A GRAPH")
    os.utime(graph, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert compute_key(settled, cache=cache) != before

    compute_key(settled, cache=cache)
    graph.write_bytes(b"another")
    read: list[str] = []

    def noted(entry: Entry, _: object) -> str:
        read.append(entry.name)
        return "0" * 64

    monkeypatch.setattr(hashed, "_hash_entry", noted)
    compute_key(settled, cache=cache)
    assert read == ["ranker/1/saved_model.pb"]


def test_a_file_changed_within_the_step_of_the_disks_clock_is_seen(
    inputs: ArchiveInputs, version: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coarse(status: os.stat_result) -> tuple[int, int, int, int]:
        """As on a disk that knows neither seconds nor what was written in them."""
        return (status.st_size, 0, 0, status.st_ino)

    monkeypatch.setattr(hashed, "extract_signature", coarse)
    before = compute_key(inputs, cache=cache)
    (version / "saved_model.pb").write_bytes(b"A GRAPH")
    assert compute_key(inputs, cache=cache) != before


def test_a_cache_that_is_damaged_altered_or_cannot_be_written_is_done_without(
    settled: ArchiveInputs, cache: Path, tmp_path: Path
) -> None:
    for damage in ["", "{", "0\n{}", '{"a": 1}', "\x00" * 64]:
        before = compute_key(settled, cache=cache)
        (file,) = (cache / hashed.FOLDER).iterdir()
        file.write_text(damage)
        assert compute_key(settled, cache=cache) == before

    before = compute_key(settled, cache=cache)
    (file,) = (cache / hashed.FOLDER).iterdir()
    checksum, body = file.read_text().split("\n")
    known = {path: [*found[:-1], "0" * 64] for path, found in json.loads(body).items()}
    file.write_text(f"{checksum}\n{json.dumps(known)}")
    assert compute_key(settled, cache=cache) == before

    (tmp_path / "file").write_text("in the way of a folder")
    assert compute_key(settled, cache=tmp_path / "file") == compute_key(settled)


def test_two_processes_at_once_find_one_key(settled: ArchiveInputs, cache: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        found = [pool.submit(compute_key, settled, cache=cache) for _ in range(8)]
        assert {one.result() for one in found} == {compute_key(settled)}
