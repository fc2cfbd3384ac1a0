"""Where a model's data lies: one archive, or files under a prefix, in S3."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.model_data import (
    check_model_data,
    data_url,
    of_package,
    s3_location,
    write_archive,
)


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
    assert s3_location(url) == place


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
    assert data_url(container) == url


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
        data_url(container)


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
        aws: Any = S3(code)
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
    found = of_package({"ModelPackageName": "ranker/7", "Environment": {"B": "2"}}, aws)
    assert found == {
        "ModelPackageName": "ranker/7",
        "Image": "i",
        "ModelDataUrl": "s3://b/k",
        "Environment": {"A": "1", "B": "2"},
    }
    aws = Registry()
    assert of_package({"Image": "i"}, aws) == {"Image": "i"}
    with pytest.raises(SageMakerError, match="Could not find model package ranker/8"):
        of_package({"ModelPackageName": "ranker/8"}, aws)
