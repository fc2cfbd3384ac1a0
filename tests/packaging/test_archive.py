"""model.tar.gz: the container's layout, and what publishing makes of a request."""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from model_packaging.archive import build_command, pack, provide_archive
from model_packaging.inputs import ArchiveInputs, compute_key
from model_packaging.refusal import PackagingError


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as opened:
        return opened.getnames()


def request(inputs: ArchiveInputs, folder: Path) -> dict[str, Any]:
    """What the CDK CLI would hand to the packer."""
    archives = folder / ".servable" / "archives"
    parsed: dict[str, Any] = json.loads(
        build_command(inputs, expected_key=compute_key(inputs), archives=archives)[-1]
    )
    return parsed


def test_an_archive_has_the_containers_layout_its_own_hash_and_size_and_tells_progress(
    inputs: ArchiveInputs, tmp_path: Path
) -> None:
    pack(inputs, tmp_path / "model.tar.gz")
    assert names(tmp_path / "model.tar.gz") == [
        "code",
        "code/inference.py",
        "ranker",
        "ranker/1",
        "ranker/1/saved_model.pb",
        "ranker/1/variables",
        "ranker/1/variables/variables.index",
    ]
    packed = pack(inputs, tmp_path / "model.tar.gz")
    assert packed.sha256 == hashlib.sha256(packed.path.read_bytes()).hexdigest()
    assert packed.bytes == packed.path.stat().st_size

    told: list[tuple[int, int]] = []
    packed = pack(
        inputs, tmp_path / "a.tar.gz", progress=lambda done, all_: told.append((done, all_))
    )
    assert told[-1] == (packed.input_bytes, packed.input_bytes)


def test_leading_zeros_of_a_version_are_dropped_as_the_container_drops_them(
    inputs: ArchiveInputs, version: Path
) -> None:
    version.rename(version.parent / "0007")
    assert inputs.build_model_tree().files[0].name == "ranker/7/saved_model.pb"


def test_an_archive_is_published_once_under_its_key(
    inputs: ArchiveInputs, tmp_path: Path, version: Path
) -> None:
    asked = request(inputs, tmp_path)
    assert provide_archive(asked).name == f"{asked['key']}.tar.gz"
    first = provide_archive(asked).stat().st_ino
    assert provide_archive(asked).stat().st_ino == first
    (version / "saved_model.pb").write_bytes(b"another")
    with pytest.raises(PackagingError, match="changed between synth and publishing; deploy again"):
        provide_archive(asked)
