"""Where a model's data lies: one archive, or files under a prefix, in S3."""

import http.client
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError, ValidationError
from servable_local.aws.sagemaker import model_data
from servable_local.aws.sagemaker.container import VariantStartError
from servable_local.aws.sagemaker.model_data import (
    TargetModels,
    check_model_data,
    find_data_url,
    merge_package,
    parse_s3_location,
    write_archive,
)
from servable_tensors import archive


def source(uri: str, kind: str, compression: str) -> dict[str, Any]:
    data = {"S3Uri": uri, "S3DataType": kind, "CompressionType": compression}
    return {"ModelDataSource": {"S3DataSource": data}}


class S3:
    """A bucket `b` whose listing has two pages."""

    def __init__(self, code: str = "404") -> None:
        self.objects = {"m/a.txt": b"first", "m/sub/b.txt": b"second!"}
        self.code = code

    def client(self, service: str) -> Any:
        return self

    def get_paginator(self, name: str) -> Any:
        return self

    def paginate(self, **asked: str) -> Any:
        for key in self.objects:
            found = key.startswith(asked["Prefix"])
            yield {"Contents": [{"Key": key}]} if found else {}

    def get_object(self, **asked: str) -> Any:
        body = self.objects[asked["Key"]]
        return {"Body": io.BytesIO(body), "ContentLength": len(body)}

    def head_object(self, **asked: str) -> None:
        if asked["Key"] not in self.objects:
            raise ClientError({"Error": {"Code": self.code}}, "HeadObject")


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bucket/a/k", ("bucket", "a/k")),
        ("s3://bucket/a/", ("bucket", "a/")),
        ("https://s3.eu-west-1.amazonaws.com/bucket/a/k", ("bucket", "a/k")),
    ],
)
def test_an_address_of_s3_is_a_bucket_and_a_key(url: str, place: tuple[str, str]) -> None:
    assert parse_s3_location(url) == place


@pytest.mark.parametrize(
    ("container", "url"),
    [
        ({"ModelDataUrl": "s3://b/k"}, "s3://b/k"),
        ({}, None),
        (source("s3://b/k.tar.gz", "S3Object", "Gzip"), "s3://b/k.tar.gz"),
        (source("s3://b/m/", "S3Prefix", "None"), "s3://b/m/"),
    ],
)
def test_data_is_an_archive_or_a_prefix(container: dict[str, Any], url: str | None) -> None:
    assert find_data_url(container) == url


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        (source("s3://b/m", "S3Prefix", "None"), "must end with a slash, not 's3://b/m'"),
        (source("s3://b/m", "S3Object", "None"), "not S3Object and None"),
        (source("s3://b/m/", "S3Prefix", "Gzip"), "not S3Prefix and Gzip"),
    ],
)
def test_data_of_another_kind_is_refused(container: dict[str, Any], problem: str) -> None:
    with pytest.raises(SageMakerError, match=problem):
        find_data_url(container)


def test_data_is_looked_for() -> None:
    for url in ["s3://b/m/a.txt", "s3://b/m/"]:
        aws: Any = S3()
        check_model_data(url, aws)
    for url, code, problem in [
        ("s3://b/absent", "404", "Could not find model data at s3://b/absent"),
        ("s3://b/absent/", "404", "Could not find model data at s3://b/absent/"),
        ("s3://b/absent", "403", "Could not access model data at s3://b/absent"),
        ("s3://b/absent", "AccessDenied", "Could not access model data"),
    ]:
        aws = S3(code)
        with pytest.raises(SageMakerError, match=problem):
            check_model_data(url, aws)


def test_files_under_a_prefix_become_the_archive_that_they_would_have_been(tmp_path: Path) -> None:
    write_archive(S3(), "b", "m/", tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz", "r:gz") as tar:
        contents = {name: tar.extractfile(name) for name in tar.getnames()}
        assert {name: file.read() for name, file in contents.items() if file} == {
            "a.txt": b"first", "sub/b.txt": b"second!",
        }  # fmt: skip


class Registry:
    """A model registry with one package."""

    def client(self, service: str) -> Any:
        return self

    def describe_model_package(self, **asked: str) -> Any:
        if asked != {"ModelPackageName": "ranker/7"}:
            raise ClientError({"Error": {"Code": "ValidationException"}}, "DescribeModelPackage")
        container = {"Image": "i", "ModelDataUrl": "s3://b/k", "Environment": {"A": "1", "B": "1"}}
        return {"InferenceSpecification": {"Containers": [container]}}


def test_a_model_package_gives_what_the_container_does_not_set() -> None:
    aws: Any = Registry()
    found = merge_package({"ModelPackageName": "ranker/7", "Environment": {"B": "2"}}, aws)
    assert found == {
        "ModelPackageName": "ranker/7",
        "Image": "i",
        "ModelDataUrl": "s3://b/k",
        "Environment": {"A": "1", "B": "2"},
    }
    aws = Registry()
    assert merge_package({"Image": "i"}, aws) == {"Image": "i"}
    with pytest.raises(SageMakerError, match="Could not find model package ranker/8"):
        merge_package({"ModelPackageName": "ranker/8"}, aws)


class Container:
    """It remembers what it is asked to load, and answers `status`."""

    def __init__(self) -> None:
        self.url = "http://127.0.0.1:1"
        self.status, self.answer = 200, b""
        self.error: Exception | None = None
        self.loaded: list[dict[str, str]] = []

    def post(self, path: str, body: bytes, headers: dict[str, str], **more: float) -> Any:
        if self.error is not None:
            raise self.error
        assert (path, headers) == ("/models", {"Content-Type": "application/json"})
        self.loaded.append(json.loads(body))
        return self.status, {}, self.answer


class Case:
    def __init__(self, folder: Path) -> None:
        self.container, self.fetched = Container(), list[str]()
        container: Any = self.container
        aws: Any = None
        self.models = TargetModels(container, "s3://b/models/", aws=aws, folder=folder)

    def refusal(self, target: str = "a.tar.gz") -> str:
        with pytest.raises(ValidationError) as caught:
            self.models.prepare_path(target)
        return str(caught.value.message)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    case = Case(tmp_path / "models")

    def fetch(url: str, aws: Any, target: Path) -> Path:
        case.fetched.append(url)
        return target

    monkeypatch.setattr(model_data, "fetch_model_data", fetch)
    monkeypatch.setattr(archive, "unpack", lambda packed, folder: folder.mkdir(parents=True))
    return case


def raising(error: Exception) -> Callable[..., Any]:
    def fails(*given: Any) -> None:
        raise error

    return fails


def test_a_target_is_fetched_from_its_prefix_and_loaded_once(case: Case) -> None:
    paths = [case.models.prepare_path("/sub/a.tar.gz") for _ in range(2)]
    (request,) = case.container.loaded
    assert case.fetched == ["s3://b/models/sub/a.tar.gz"]
    assert paths == [f"/models/{request['model_name']}/invoke"] * 2
    assert Path(request["url"]).is_dir()
    assert case.models.prepare_path("a.tar.gz") != case.models.prepare_path("b.tar.gz")


def test_a_target_that_the_container_lost_is_loaded_again_and_not_fetched(case: Case) -> None:
    case.models.mark_unloaded("absent")

    case.models.prepare_path("a.tar.gz")
    case.models.mark_unloaded("a.tar.gz")
    case.models.prepare_path("a.tar.gz")
    assert (len(case.container.loaded), len(case.fetched)) == (2, 1)


def test_a_container_at_another_address_has_nothing_loaded(case: Case) -> None:
    case.models.prepare_path("a.tar.gz")
    case.container.url = "http://127.0.0.1:2"
    case.models.prepare_path("a.tar.gz")
    assert len(case.container.loaded) == 2


@pytest.mark.parametrize("status", [200, 299, 409])
def test_a_target_that_is_loaded_now_or_was_already_is_asked(case: Case, status: int) -> None:
    case.container.status = status
    assert case.models.prepare_path("a.tar.gz").startswith("/models/")


@pytest.mark.parametrize("status", [199, 300, 408, 410, 500])
def test_a_target_that_does_not_load_is_refused(case: Case, status: int) -> None:
    case.container.status, case.container.answer = status, b"no memory \xff"
    assert case.refusal() == "a.tar.gz could not be loaded: no memory \ufffd"


@pytest.mark.parametrize("error", [OSError("reset"), http.client.BadStatusLine("reset")])
def test_a_container_that_hangs_up_is_a_refusal(case: Case, error: Exception) -> None:
    case.container.error = error
    assert case.refusal() == "a.tar.gz could not be loaded: reset"


def test_a_target_that_did_not_load_is_loaded_by_the_next_request(case: Case) -> None:
    case.container.status = 500
    case.refusal()
    case.container.status = 200
    assert case.models.prepare_path("a.tar.gz").startswith("/models/")


def test_a_target_that_is_no_archive_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "unpack", raising(archive.ArchiveError("not gzip")))
    assert case.refusal() == "Failed to unpack a.tar.gz: not gzip"


def test_a_missing_target_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = raising(VariantStartError("absent"))
    monkeypatch.setattr(model_data, "fetch_model_data", fails)
    assert "(bucket: b, key: models/a.tar.gz)" in case.refusal()
