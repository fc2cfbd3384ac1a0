"""Models that no archive holds: fetched into the project, and found in their folders."""

from pathlib import Path
from typing import Any

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
    assert (
        fetched(tmp_path / "1", {"live/../../x": b"", "live//etc/x": b""}, "s3://bucket/live/")
        == []
    )
    objects = {"live/1/saved_model.pb": b"graph", "live/code/": b"", "other/1/saved_model.pb": b""}
    assert fetched(tmp_path / "2", objects, "s3://bucket/live/") == [
        "models/ranker/1/saved_model.pb"
    ]


def test_an_archive_is_unpacked_and_anything_else_is_refused_by_its_address(tmp_path: Path) -> None:
    objects = {"many/a.tar.gz": archive(), "many/a.tar.gz.old": b"text"}
    files = fetched(tmp_path / "3", objects, "s3://bucket/many/a.tar.gz")
    assert "models/ranker/1/saved_model.pb" in files
    with pytest.raises(PackagingError, match=r"s3:/+bucket/many/a\.tar\.gz: cannot be fetched"):
        fetched(tmp_path / "4", {"many/a.tar.gz": b"text"}, "s3://bucket/many/a.tar.gz")


def located(root: Path, *files: str) -> tuple[Tables, list[str]]:
    for name in files:
        (root / "models" / "ranker" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "models" / "ranker" / name).touch()
    tables: Tables = {"ranker": {"saved_model": "models/ranker"}, "several": {"multi_model": []}}
    return tables, [row.reason for row in set_model_paths(tables, root)]


@pytest.mark.parametrize(
    ("files", "table"),
    [
        (("1/saved_model.pb",), {"saved_model": "models/ranker"}),
        (("a/ranker/7/saved_model.pb",), {"saved_model": "models/ranker/a/ranker"}),
        (("1/saved_model.pb", "code/inference.py"),
         {"saved_model": "models/ranker", "code": "models/ranker/code"}),
        (("1/saved_model.pb", "code/requirements.txt"),
         {"saved_model": "models/ranker", "code": "models/ranker/code", "install": "at start"}),
    ],
)  # fmt: skip
def test_the_table_names_the_folder_of_the_versions_and_the_code(
    tmp_path: Path, files: tuple[str, ...], table: dict[str, str]
) -> None:
    assert located(tmp_path, *files)[0]["ranker"] == table


def test_what_the_folder_leaves_open_is_listed(tmp_path: Path) -> None:
    assert "no <version>/saved_model.pb" in located(tmp_path, "saved_model.pb")[1][0]
    tables, reasons = located(tmp_path, "other/1/saved_model.pb", "ranker/1/saved_model.pb")
    assert (tables["ranker"]["saved_model"], len(reasons)) == ("models/ranker/ranker", 1)


def test_what_aws_does_not_give_is_refused_by_its_address(tmp_path: Path) -> None:
    class Closed(Bucket):
        def download_file(self, *_: object, **__: object) -> None:
            raise ClientError({"Error": {"Code": "403"}}, "GetObject")

    account: Any = Closed({"live/1/saved_model.pb": b"graph"})
    with pytest.raises(PackagingError, match=r"s3:/+bucket/live: cannot be read.*s3:GetObject"):
        fetch({"models/ranker": "s3://bucket/live/"}, account, tmp_path)


def test_files_keep_their_folders_and_their_bytes(tmp_path: Path) -> None:
    objects = {"live/1/saved_model.pb": b"graph", "live/1/variables/index": b"i"}
    names = fetched(tmp_path, objects, "s3://bucket/live/")
    assert names == ["models/ranker/1/saved_model.pb", "models/ranker/1/variables/index"]
    assert [(tmp_path / name).read_bytes() for name in names] == [b"graph", b"i"]


def test_of_two_models_the_table_has_the_one_of_its_name_or_the_first(tmp_path: Path) -> None:
    tables, reasons = located(tmp_path, "b/1/saved_model.pb", "a/1/saved_model.pb")
    assert (tables["ranker"]["saved_model"], len(reasons)) == ("models/ranker/a", 1)
    rows = list(set_model_paths({"b": {"saved_model": "models/ranker"}}, tmp_path))
    assert [(row.where, row.value, row.effect) for row in rows] == [("models/ranker", "a", "lost")]
