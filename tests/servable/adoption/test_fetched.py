"""Models that no archive holds: fetched into the project, and found in their folders."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from model_packaging.refusal import PackagingError
from servable.init.from_live import fetch, set_model_paths
from tests.servable_local.aws.live_endpoints import archive

Tables = dict[str, dict[str, Any]]


class Bucket:
    """An `Account` whose S3 holds these objects of one bucket."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects

    def client(self, service: str) -> "Bucket":
        assert service == "s3"
        return self

    def iterate_items(self, *_: str, Prefix: str, **__: str) -> list[dict[str, Any]]:  # noqa: N803
        sizes = {key: len(body) for key, body in self.objects.items() if key.startswith(Prefix)}
        return [{"Key": key, "Size": size} for key, size in sizes.items()]

    def download_file(self, bucket: str, key: str, file: str, **_: object) -> None:
        Path(file).write_bytes(self.objects[key])


def fetched(root: Path, objects: dict[str, bytes], uri: str) -> list[str]:
    account: Any = Bucket(objects)
    fetch({"models/ranker": uri}, account, root)
    return sorted(each.relative_to(root).as_posix() for each in root.rglob("*") if each.is_file())


def test_files_below_a_prefix_lie_in_the_folder_and_no_key_leads_out_of_it(tmp_path: Path) -> None:
    objects = {"live/1/saved_model.pb": b"graph", "live/1/variables/index": b"i"}
    names = fetched(tmp_path, objects, "s3://bucket/live/")
    assert names == ["models/ranker/1/saved_model.pb", "models/ranker/1/variables/index"]
    assert [(tmp_path / name).read_bytes() for name in names] == [b"graph", b"i"]

    outwards = {"live/../../x": b"", "live//etc/x": b""}
    assert fetched(tmp_path / "1", outwards, "s3://bucket/live/") == []
    objects = {"live/1/saved_model.pb": b"graph", "live/code/": b"", "other/1/saved_model.pb": b""}
    (file,) = fetched(tmp_path / "2", objects, "s3://bucket/live/")
    assert file == "models/ranker/1/saved_model.pb"


def test_an_archive_is_unpacked_and_anything_else_is_refused_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = {"many/a.tar.gz": archive(), "many/a.tar.gz.old": b"text"}
    files = fetched(tmp_path / "3", objects, "s3://bucket/many/a.tar.gz")
    assert "models/ranker/1/saved_model.pb" in files
    with pytest.raises(PackagingError, match=r"s3:/+bucket/many/a\.tar\.gz: cannot be fetched"):
        fetched(tmp_path / "4", {"many/a.tar.gz": b"text"}, "s3://bucket/many/a.tar.gz")
    refused = ClientError({"Error": {"Code": "403"}}, "GetObject")
    monkeypatch.setattr(Bucket, "download_file", Mock(side_effect=refused))
    with pytest.raises(PackagingError, match=r"s3:/+bucket/many: cannot be read.*s3:GetObject"):
        fetched(tmp_path / "5", objects, "s3://bucket/many/")


def located(root: Path, *files: str) -> tuple[Tables, list[str]]:
    for name in files:
        (root / "models" / "ranker" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "models" / "ranker" / name).touch()
    tables: Tables = {"ranker": {"saved_model": "models/ranker"}, "several": {"multi_model": []}}
    return tables, [row.reason for row in set_model_paths(tables, root)]


def test_the_table_names_the_folder_of_the_versions_and_the_code(tmp_path: Path) -> None:
    model = {"saved_model": "models/ranker"}
    code = {**model, "code": "models/ranker/code"}
    for number, (files, table, listed) in enumerate((
        (["1/saved_model.pb"], model, 0),
        (["a/ranker/7/saved_model.pb"], {"saved_model": "models/ranker/a/ranker"}, 0),
        (["1/saved_model.pb", "code/inference.py"], code, 0),
        (["1/saved_model.pb", "code/requirements.txt"], code | {"install": "at start"}, 0),
        # Of two models it is the one of the table's name, or the first.
        (["other/1/saved_model.pb", "ranker/1/saved_model.pb"],
         {"saved_model": "models/ranker/ranker"}, 1),
        (["b/1/saved_model.pb", "a/1/saved_model.pb"], {"saved_model": "models/ranker/a"}, 1),
    )):  # fmt: skip
        tables, reasons = located(tmp_path / str(number), *files)
        assert (tables["ranker"], len(reasons)) == (table, listed)
    rows = list(set_model_paths({"b": {"saved_model": "models/ranker"}}, tmp_path / "5"))
    assert [(row.where, row.value, row.effect) for row in rows] == [("models/ranker", "a", "lost")]
    _, (reason,) = located(tmp_path / "none", "saved_model.pb")
    assert "no <version>/saved_model.pb" in reason
