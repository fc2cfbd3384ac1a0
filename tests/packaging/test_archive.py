"""model.tar.gz: the container's layout, and what publishing makes of a request."""

import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging.archive import build_command, pack, provide_archive
from model_packaging.inputs import ArchiveInputs, compute_key
from model_packaging.refusal import PackagingError


def test_an_archive_has_the_containers_layout_its_own_hash_and_size_and_tells_progress(
    inputs: ArchiveInputs, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    packed = pack(
        inputs, tmp_path / "model.tar.gz", progress=lambda done, all_: told.append((done, all_))
    )
    with tarfile.open(packed.path) as opened:
        assert opened.getnames() == [
            "code", "code/inference.py", "ranker", "ranker/1", "ranker/1/saved_model.pb",
            "ranker/1/variables", "ranker/1/variables/variables.index",
        ]  # fmt: skip
    assert packed.sha256 == hashlib.sha256(packed.path.read_bytes()).hexdigest()
    assert packed.bytes == packed.path.stat().st_size
    assert told[-1] == (packed.input_bytes, packed.input_bytes)


def test_leading_zeros_of_a_version_are_dropped_as_the_container_drops_them(
    inputs: ArchiveInputs, version: Path
) -> None:
    version.rename(version.parent / "0007")
    assert inputs.build_model_tree().files[0].name == "ranker/7/saved_model.pb"


def test_an_archive_is_published_once_under_its_key(
    inputs: ArchiveInputs, tmp_path: Path, version: Path
) -> None:
    archives = tmp_path / ".servable" / "archives"
    command = build_command(inputs, expected_key=compute_key(inputs), archives=archives)
    asked = json.loads(command[-1])  # what the CDK CLI hands to the packer
    assert provide_archive(asked).name == f"{asked['key']}.tar.gz"
    first = provide_archive(asked).stat().st_ino
    assert provide_archive(asked).stat().st_ino == first
    (version / "saved_model.pb").write_bytes(b"another")
    with pytest.raises(PackagingError, match="changed between synth and publishing; deploy again"):
        provide_archive(asked)


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
    with pytest.raises(PackagingError, match="needs the same folder; remove one of them"):
        vendored.build_tree()
