"""model.tar.gz: the container's layout, and what publishing makes of a request."""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs
from model_packaging.manifest import key
from model_packaging.publishing import command, publish
from model_packaging.refusal import PackagingError


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as opened:
        return opened.getnames()


def request(inputs: ArchiveInputs, folder: Path) -> dict[str, Any]:
    """What the CDK CLI would hand to the packer."""
    archives = folder / ".servable" / "archives"
    parsed: dict[str, Any] = json.loads(
        command(inputs, expected_key=key(inputs), archives=archives)[-1]
    )
    return parsed


def test_the_layout_is_the_containers(inputs: ArchiveInputs, tmp_path: Path) -> None:
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


def test_the_packed_sha256_is_the_archives(inputs: ArchiveInputs, tmp_path: Path) -> None:
    packed = pack(inputs, tmp_path / "model.tar.gz")
    assert packed.sha256 == hashlib.sha256(packed.path.read_bytes()).hexdigest()


def test_the_packed_size_is_the_archives(inputs: ArchiveInputs, tmp_path: Path) -> None:
    packed = pack(inputs, tmp_path / "model.tar.gz")
    assert packed.bytes == packed.path.stat().st_size


def test_progress_ends_with_all_bytes(inputs: ArchiveInputs, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    packed = pack(
        inputs, tmp_path / "a.tar.gz", progress=lambda done, all_: told.append((done, all_))
    )
    assert told[-1] == (packed.input_bytes, packed.input_bytes)


def test_leading_zeros_of_a_version_are_dropped_as_the_container_drops_them(
    inputs: ArchiveInputs, version: Path
) -> None:
    version.rename(version.parent / "0007")
    assert inputs.model_tree().files[0].name == "ranker/7/saved_model.pb"


def test_a_published_archive_is_kept_under_its_key(inputs: ArchiveInputs, tmp_path: Path) -> None:
    asked = request(inputs, tmp_path)
    assert publish(asked).name == f"{asked['key']}.tar.gz"


def test_an_archive_that_an_earlier_run_packed_is_published_again(
    inputs: ArchiveInputs, tmp_path: Path
) -> None:
    asked = request(inputs, tmp_path)
    first = publish(asked).stat().st_ino
    assert publish(asked).stat().st_ino == first


def test_a_model_changed_after_synth_is_not_published(
    inputs: ArchiveInputs, version: Path, tmp_path: Path
) -> None:
    asked = request(inputs, tmp_path)
    (version / "saved_model.pb").write_bytes(b"another")
    with pytest.raises(PackagingError, match="changed between synth and publishing; deploy again"):
        publish(asked)
