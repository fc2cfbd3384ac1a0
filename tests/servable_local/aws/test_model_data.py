"""Where a model's data lies: one archive, or files under a prefix, in S3."""

import http.client
import io
import json
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs, Servable
from servable_local.aws import LocalAws, running
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
from tests.checkouts import ROOT
from tests.conformance.archives import MODELS
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.live_endpoints import ARCHIVE
from tests.servable_local.aws.local_account import Account


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


def test_an_address_of_s3_is_a_bucket_and_a_key() -> None:
    for url, key in [
        ("s3://bucket/a/k", "a/k"),
        ("s3://bucket/a/", "a/"),
        ("https://s3.eu-west-1.amazonaws.com/bucket/a/k", "a/k"),
    ]:
        assert parse_s3_location(url) == ("bucket", key)


def test_data_is_an_archive_or_a_prefix() -> None:
    assert find_data_url({}) is None
    for container, url in [
        ({"ModelDataUrl": "s3://b/k"}, "s3://b/k"),
        (source("s3://b/k.tar.gz", "S3Object", "Gzip"), "s3://b/k.tar.gz"),
        (source("s3://b/m/", "S3Prefix", "None"), "s3://b/m/"),
    ]:
        assert find_data_url(container) == url
    for uri, kind, compression, problem in [
        ("s3://b/m", "S3Prefix", "None", "must end with a slash, not 's3://b/m'"),
        ("s3://b/m", "S3Object", "None", "not S3Object and None"),
        ("s3://b/m/", "S3Prefix", "Gzip", "not S3Prefix and Gzip"),
    ]:
        with pytest.raises(SageMakerError, match=problem):
            find_data_url(source(uri, kind, compression))


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
        found = {name: file.read() for name, file in contents.items() if file}
        assert found == {"a.txt": b"first", "sub/b.txt": b"second!"}


def test_a_model_package_gives_what_the_container_does_not_set() -> None:
    def describe(**asked: str) -> Any:
        if asked != {"ModelPackageName": "ranker/7"}:
            raise ClientError({"Error": {"Code": "ValidationException"}}, "DescribeModelPackage")
        variables = {"A": "1", "B": "1"}
        container = {"Image": "i", "ModelDataUrl": "s3://b/k", "Environment": variables}
        return {"InferenceSpecification": {"Containers": [container]}}

    registry = SimpleNamespace(describe_model_package=describe)
    aws: Any = SimpleNamespace(client=lambda service: registry)
    found = merge_package({"ModelPackageName": "ranker/7", "Environment": {"B": "2"}}, aws)
    named = {"ModelPackageName": "ranker/7", "Image": "i", "ModelDataUrl": "s3://b/k"}
    assert found == named | {"Environment": {"A": "1", "B": "2"}}
    assert merge_package({"Image": "i"}, aws) == {"Image": "i"}
    with pytest.raises(SageMakerError, match="Could not find model package ranker/8"):
        merge_package({"ModelPackageName": "ranker/8"}, aws)


class Case:
    """Models below a prefix, of a container that remembers what it is asked to load."""

    def __init__(self, folder: Path) -> None:
        self.container: Any = Mock(url="http://127.0.0.1:1")
        self.fetch = Mock(side_effect=lambda url, aws, target: target)
        self.answer(200)
        aws: Any = None
        self.models = TargetModels(self.container, "s3://b/models/", aws=aws, folder=folder)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.container.post.return_value = (status, {}, body)

    def refusal(self, target: str = "a.tar.gz") -> str:
        with pytest.raises(ValidationError) as caught:
            self.models.prepare_path(target)
        return str(caught.value.message)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    case = Case(tmp_path / "models")
    monkeypatch.setattr(model_data, "fetch_model_data", case.fetch)
    monkeypatch.setattr(archive, "unpack", lambda packed, folder: folder.mkdir(parents=True))
    return case


def test_a_target_is_fetched_from_its_prefix_and_loaded_once(case: Case) -> None:
    paths = [case.models.prepare_path("/sub/a.tar.gz") for _ in range(2)]
    ((path, body, headers),) = (call.args for call in case.container.post.call_args_list)
    assert (path, headers) == ("/models", {"Content-Type": "application/json"})
    assert [call.args[0] for call in case.fetch.call_args_list] == ["s3://b/models/sub/a.tar.gz"]
    request = json.loads(body)
    assert paths == [f"/models/{request['model_name']}/invoke"] * 2
    assert Path(request["url"]).is_dir()
    assert case.models.prepare_path("a.tar.gz") != case.models.prepare_path("b.tar.gz")


def test_a_target_that_the_container_lost_is_loaded_again_and_not_fetched(case: Case) -> None:
    case.models.mark_unloaded("absent")
    case.models.prepare_path("a.tar.gz")
    case.models.mark_unloaded("a.tar.gz")
    case.models.prepare_path("a.tar.gz")
    assert (case.container.post.call_count, case.fetch.call_count) == (2, 1)
    # A container at another address has nothing loaded.
    case.container.url = "http://127.0.0.1:2"
    case.models.prepare_path("a.tar.gz")
    assert case.container.post.call_count == 3


@pytest.mark.parametrize("status", [199, 300, 408, 410, 500])
def test_a_target_that_does_not_load_is_refused(case: Case, status: int) -> None:
    case.answer(status, b"no memory \xff")
    assert case.refusal() == "a.tar.gz could not be loaded: no memory \ufffd"
    for loaded in (200, 299, 409):  # now, or it was already; the next request loads it
        case.answer(loaded)
        assert case.models.prepare_path(f"{loaded}.tar.gz").startswith("/models/")
        assert case.models.prepare_path("a.tar.gz").startswith("/models/")


def test_a_target_that_is_missing_or_no_archive_or_hung_up_on_is_named(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (OSError("reset"), http.client.BadStatusLine("reset")):
        case.container.post.side_effect = error
        assert case.refusal() == "a.tar.gz could not be loaded: reset"
    no_archive = Mock(side_effect=archive.ArchiveError("not gzip"))
    monkeypatch.setattr(archive, "unpack", no_archive)
    assert case.refusal("b.tar.gz") == "Failed to unpack b.tar.gz: not gzip"
    case.fetch.side_effect = VariantStartError("absent")
    assert "(bucket: b, key: models/c.tar.gz)" in case.refusal("c.tar.gz")


# --- multi-model mode: a target is fetched and loaded when it is first asked for

GOLDEN = ROOT / "examples" / "ranker" / "golden"


def _many(prefix: str, **container: Any) -> dict[str, Any]:
    template = serving(prefix)
    primary = template["Resources"]["Model"]["Properties"]["PrimaryContainer"]
    primary |= {"Mode": "MultiModel"} | container
    return template


def test_a_request_goes_to_its_target_alone(account: Account) -> None:
    url = account.put_archive(ARCHIVE, "models/a.tar.gz")
    account.deploy(_many(url.removesuffix("a.tar.gz")))
    invoke, of = account.client("sagemaker-runtime").invoke_endpoint, {"EndpointName": "ranker"}
    answer = json.loads(invoke(**of, Body=b"x", TargetModel="a.tar.gz")["Body"].read())
    assert answer["variables"]["SAGEMAKER_MULTI_MODEL"] == "true"
    assert re.fullmatch("/models/.+/invoke", answer["path"])
    with pytest.raises(ClientError, match=r"key: models/absent.tar.gz\)"):
        invoke(**of, Body=b"x", TargetModel="absent.tar.gz")
    with pytest.raises(ClientError, match="pass TargetModel"):
        invoke(**of, Body=b"x")


@pytest.fixture(scope="module")
def real() -> Iterator[LocalAws]:
    """The local container itself, with the example's model under a prefix."""
    with running() as aws:
        s3, cfn = aws.client("s3"), aws.client("cloudformation")
        s3.create_bucket(Bucket="archives")
        s3.put_object(Bucket="archives", Key="models/ranker.tar.gz", Body=ARCHIVE)
        template = json.dumps(_many("s3://archives/models/", Environment={}))
        cfn.create_stack(StackName="stack", TemplateBody=template)
        waits = {"Delay": 1, "MaxAttempts": 60}
        cfn.get_waiter("stack_create_complete").wait(StackName="stack", WaiterConfig=waits)
        yield aws


@pytest.mark.long
def test_the_double_predicts_with_the_target_also_once_it_was_unloaded(real: LocalAws) -> None:
    """Since 2.20: the first request after its model server has ended is answered 404."""
    runtime = real.client("sagemaker-runtime")
    asked = {"EndpointName": "ranker", "TargetModel": "ranker.tar.gz"}
    asked |= {"ContentType": "application/json", "Body": (GOLDEN / "request-rows.json").read_text()}
    predictions = json.loads(runtime.invoke_endpoint(**asked)["Body"].read())["predictions"]
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
    assert predictions == pytest.approx(wanted, abs=1e-5)

    real.inject_fault("ranker", kill="model server")
    statuses: list[int] = []
    until = time.monotonic() + 30  # until the container has noticed, it is a 500
    while 200 not in statuses[1:] and time.monotonic() < until:
        try:
            runtime.invoke_endpoint(**asked)
            statuses.append(200)
        except ClientError as error:
            statuses.append(error.response["OriginalStatusCode"])
    assert statuses[-2:] == [404, 200]


def _with_hooks(folder: Path, factor: int) -> bytes:
    """The model whose output is three times its input, behind hooks of its own."""
    code = folder / "code"
    code.mkdir(parents=True)
    (code / "factor.py").write_text(f"FACTOR = {factor}\n")
    (code / "transforms.py").write_text(
        "import numpy as np\n"
        "from factor import FACTOR\n"
        "from servable_handler.hooks import InputError\n\n"
        "def preprocess(body, context):\n"
        "    if not body.isdigit():\n"
        "        raise InputError(f'send a number, for {FACTOR}')\n"
        "    return {'x': np.array([[FACTOR * int(body), 0]], np.float32)}\n\n"
        "def postprocess(tensors, context):\n"
        "    return {'factor': FACTOR, 'answer': next(iter(tensors.values()))[0, 0].item()}\n"
    )
    numbers = Servable(name="numbers", folder=MODELS / "numbers", at_root=True)
    packed = pack(ArchiveInputs(servables=(numbers,), code=code), folder / "model.tar.gz")
    return packed.path.read_bytes()


@pytest.mark.long
def test_two_models_have_hooks_of_their_own(real: LocalAws, tmp_path: Path) -> None:
    s3, runtime = real.client("s3"), real.client("sagemaker-runtime")
    for factor in (5, 7):
        body = _with_hooks(tmp_path / str(factor), factor)
        s3.put_object(Bucket="archives", Key=f"models/times-{factor}.tar.gz", Body=body)

    def ask(factor: int, body: bytes) -> Any:
        of = {"EndpointName": "ranker", "TargetModel": f"times-{factor}.tar.gz"}
        return json.loads(runtime.invoke_endpoint(**of, Body=body)["Body"].read())

    answers = [ask(factor, b"2") for factor in (5, 7, 5)]
    assert answers == [{"factor": factor, "answer": factor * 6.0} for factor in (5, 7, 5)]
    for factor in (5, 7):
        with pytest.raises(ClientError, match=f"send a number, for {factor}"):
            ask(factor, b"two")
