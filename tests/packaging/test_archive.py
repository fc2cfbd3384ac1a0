"""model.tar.gz: what may be packed, its key, the container's layout, and what publishing makes of it."""

import hashlib
import json
import os
import shutil
import tarfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging import inputs as hashed
from model_packaging.archive import build_command, pack, provide_archive
from model_packaging.inputs import ArchiveInputs, Servable, compute_key
from model_packaging.tree import Entry
from tests.packaging.conftest import refusal


def test_an_archive_has_the_containers_layout_its_own_hash_and_size_and_tells_progress(
    inputs: ArchiveInputs, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    target = tmp_path / "model.tar.gz"
    packed = pack(inputs, target, progress=lambda done, all_: told.append((done, all_)))
    with tarfile.open(packed.path) as opened:
        assert opened.getnames() == [
            "code", "code/inference.py", "ranker", "ranker/1", "ranker/1/saved_model.pb",
            "ranker/1/variables", "ranker/1/variables/variables.index",
        ]  # fmt: skip
    content = packed.path.read_bytes()
    assert (packed.sha256, packed.bytes) == (hashlib.sha256(content).hexdigest(), len(content))
    assert told[-1] == (packed.input_bytes, packed.input_bytes)


def test_leading_zeros_of_a_version_are_dropped_as_the_container_drops_them(
    inputs: ArchiveInputs, version: Path
) -> None:
    version.rename(version.parent / "0007")
    assert inputs.build_model_tree().files[0].name == "ranker/7/saved_model.pb"


def test_an_archive_is_published_once(inputs: ArchiveInputs, tmp_path: Path, version: Path) -> None:
    archives = tmp_path / ".servable" / "archives"
    command = build_command(inputs, expected_key=compute_key(inputs), archives=archives)
    asked = json.loads(command[-1])  # what the CDK CLI hands to the packer
    assert provide_archive(asked).name == f"{asked['key']}.tar.gz"
    first = provide_archive(asked).stat().st_ino
    assert provide_archive(asked).stat().st_ino == first
    (version / "saved_model.pb").write_bytes(b"another")
    assert "changed between synth and publishing; deploy again" in refusal(provide_archive, asked)


def test_locked_packages_are_inside_decide_the_key_and_need_their_folder(
    inputs: ArchiveInputs, tmp_path: Path
) -> None:
    assert inputs.code is not None
    (inputs.code / "requirements.txt").write_text("plain\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "plain.py").write_text("TAG = 'one'\n")
    vendored = replace(inputs, lib=tmp_path / "lib")
    with tarfile.open(pack(vendored, tmp_path / "model.tar.gz").path) as opened:
        names = opened.getnames()
    assert "code/lib/plain.py" in names
    assert [name for name in names if "requirements" in name] == []
    before = compute_key(vendored)
    (tmp_path / "lib" / "plain.py").write_text("TAG = 'other'\n")
    assert compute_key(vendored) != before
    (inputs.code / "lib").mkdir()
    assert "needs the same folder; remove one of them" in refusal(vendored.build_tree)


def files(*servables: Servable) -> list[str]:
    return [entry.name for entry in ArchiveInputs(servables=servables).build_tree().files]


@pytest.fixture
def ranker(inputs: ArchiveInputs) -> Servable:
    return inputs.servables[0]


def test_every_version_is_packed(ranker: Servable, version: Path) -> None:
    shutil.copytree(version, version.parent / "2")
    graphs = [name for name in files(ranker) if name.endswith(".pb")]
    assert graphs == ["ranker/1/saved_model.pb", "ranker/2/saved_model.pb"]


def test_one_savedmodel_becomes_its_version_or_says_what_to_set(version: Path) -> None:
    assert files(Servable(name="ranker", folder=version, version=7))[0] == "ranker/7/saved_model.pb"
    moved = version.rename(version.parent / "export")
    assert refusal(files, Servable(name="ranker", folder=moved)) == (
        f"{moved}: has no version folder named with digits only; "
        "move its content to export/1/, or set version = 1 next to saved_model"
    )


def test_a_version_beside_versions_or_without_a_savedmodel_is_refused(
    ranker: Servable, tmp_path: Path
) -> None:
    assert refusal(files, replace(ranker, version=3)) == (
        f"{ranker.folder}: has no saved_model.pb to use as version 3; "
        "remove version, or set the path of the SavedModel itself"
    )
    gone = Servable(name="ranker", folder=tmp_path / "gone", version=3)
    assert "the SavedModel folder does not exist" in refusal(files, gone)


def test_several_models_lie_side_by_side_or_one_at_the_root(ranker: Servable) -> None:
    found = files(ranker, replace(ranker, name="scorer"))
    assert {name.split("/")[0] for name in found} == {"ranker", "scorer"}
    assert "is a second model named 'ranker'; give each model" in refusal(files, ranker, ranker)
    assert files(replace(ranker, at_root=True))[0] == "1/saved_model.pb"


def test_warm_up_records_go_into_each_version_and_not_over_others(
    ranker: Servable, tmp_path: Path, version: Path
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "tf_serving_warmup_requests").write_bytes(b"records")
    warmed = replace(ranker, warm_up=tmp_path)
    assert "ranker/1/assets.extra/tf_serving_warmup_requests" in files(warmed)
    (version / "assets.extra").mkdir()
    (version / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"")
    assert "exists, but warm_up writes the same file" in refusal(files, warmed)


def test_two_processes_packing_the_same_at_once_give_one_whole_archive(
    inputs: ArchiveInputs, version: Path, tmp_path: Path
) -> None:
    (version / "variables" / "shard").write_bytes(b"weights" * 3_000_000)
    target = tmp_path / "out" / "model.tar.gz"
    with ProcessPoolExecutor(2) as pool:
        made = [pool.submit(pack, inputs, target) for _ in range(6)]
        hashes = {one.result().sha256 for one in made}
    with tarfile.open(target) as opened:
        names = opened.getnames()
    assert (len(hashes), len(names), list(target.parent.iterdir())) == (1, 8, [target])


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
