"""What may be packed: versions, one SavedModel, several models, versions at the root."""

import shutil
import tarfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging.archive import Packed, pack
from model_packaging.inputs import ArchiveInputs, Servable
from model_packaging.refusal import PackagingError


def files(*servables: Servable) -> list[str]:
    return [entry.name for entry in ArchiveInputs(servables=servables).build_tree().files]


@pytest.fixture
def ranker(inputs: ArchiveInputs) -> Servable:
    return inputs.servables[0]


def test_every_version_is_packed(ranker: Servable, version: Path) -> None:
    shutil.copytree(version, version.parent / "2")
    assert [name for name in files(ranker) if name.endswith(".pb")] == [
        "ranker/1/saved_model.pb",
        "ranker/2/saved_model.pb",
    ]


def test_one_savedmodel_becomes_its_version_or_says_what_to_set(version: Path) -> None:
    assert files(Servable(name="ranker", folder=version, version=7))[0] == "ranker/7/saved_model.pb"

    moved = version.rename(version.parent / "export")
    with pytest.raises(PackagingError) as caught:
        files(Servable(name="ranker", folder=moved))
    assert str(caught.value) == (
        f"{moved}: has no version folder named with digits only; "
        "move its content to export/1/, or set version = 1 next to saved_model"
    )


def test_a_version_beside_versions_or_without_a_savedmodel_is_refused(
    ranker: Servable, tmp_path: Path
) -> None:
    with pytest.raises(PackagingError) as caught:
        files(replace(ranker, version=3))
    assert str(caught.value) == (
        f"{ranker.folder}: has no saved_model.pb to use as version 3; "
        "remove version, or set the path of the SavedModel itself"
    )
    with pytest.raises(PackagingError, match="the SavedModel folder does not exist"):
        files(Servable(name="ranker", folder=tmp_path / "gone", version=3))


def test_several_models_lie_side_by_side_or_one_at_the_root(ranker: Servable) -> None:
    found = files(ranker, replace(ranker, name="scorer"))
    assert {name.split("/")[0] for name in found} == {"ranker", "scorer"}
    with pytest.raises(PackagingError, match="is a second model named 'ranker'; give each model"):
        files(ranker, ranker)
    assert files(replace(ranker, at_root=True))[0] == "1/saved_model.pb"


def test_warm_up_records_go_into_each_version_and_not_over_others(
    ranker: Servable, tmp_path: Path, version: Path
) -> None:
    (tmp_path / "warm" / "1").mkdir(parents=True)
    (tmp_path / "warm" / "1" / "tf_serving_warmup_requests").write_bytes(b"records")
    warmed = replace(ranker, warm_up=tmp_path / "warm")
    assert "ranker/1/assets.extra/tf_serving_warmup_requests" in files(warmed)

    (version / "assets.extra").mkdir()
    (version / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"")
    with pytest.raises(PackagingError, match="exists, but warm_up writes the same file"):
        files(replace(ranker, warm_up=tmp_path))


def _packed(inputs: ArchiveInputs, target: Path) -> Packed:
    return pack(inputs, target)


def test_two_processes_packing_the_same_at_once_give_one_whole_archive(
    inputs: ArchiveInputs, version: Path, tmp_path: Path
) -> None:
    (version / "variables" / "shard").write_bytes(b"weights" * 3_000_000)
    target = tmp_path / "out" / "model.tar.gz"
    with ProcessPoolExecutor(2) as pool:
        made = [pool.submit(_packed, inputs, target) for _ in range(6)]
        hashes = {one.result().sha256 for one in made}
    with tarfile.open(target) as opened:
        names = opened.getnames()
    assert (len(hashes), len(names), list(target.parent.iterdir())) == (1, 8, [target])
