"""Multi-model mode: a target is fetched and loaded when it is first asked for."""

import io
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs, Servable
from servable_local.aws import LocalAws, running
from tests.checkouts import ROOT
from tests.conformance.archives import MODELS
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

GOLDEN = ROOT / "examples" / "ranker" / "golden"


def _many(prefix: str, **container: Any) -> dict[str, Any]:
    template = serving(prefix)
    primary = template["Resources"]["Model"]["Properties"]["PrimaryContainer"]
    primary |= {"Mode": "MultiModel"} | container
    return template


def _archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(ROOT / "examples" / "ranker" / "model" / "1", "1")
    return packed.getvalue()


@pytest.fixture
def many(account: Account) -> Account:
    """An endpoint of the models under one prefix; there is one, a.tar.gz."""
    url = account.put_archive(_archive(), "models/a.tar.gz")
    account.deploy(_many(url.removesuffix("a.tar.gz")))
    return account


def _ask(account: Account, **more: str) -> dict[str, Any]:
    runtime = account.client("sagemaker-runtime")
    answer = runtime.invoke_endpoint(EndpointName="ranker", Body=b"x", **more)
    return dict(json.loads(answer["Body"].read()))


def test_a_request_goes_to_its_target_alone(many: Account) -> None:
    assert _ask(many, TargetModel="a.tar.gz")["variables"]["SAGEMAKER_MULTI_MODEL"] == "true"

    path = _ask(many, TargetModel="a.tar.gz")["path"]
    assert path.startswith("/models/")
    assert path.endswith("/invoke")
    with pytest.raises(ClientError, match=r"key: models/absent.tar.gz\)"):
        _ask(many, TargetModel="absent.tar.gz")
    with pytest.raises(ClientError, match="pass TargetModel"):
        _ask(many)


@pytest.fixture(scope="module")
def real() -> Iterator[LocalAws]:
    """The local container itself, with the example's model under a prefix."""
    with running() as aws:
        s3, cfn = aws.client("s3"), aws.client("cloudformation")
        s3.create_bucket(Bucket="archives")
        s3.put_object(Bucket="archives", Key="models/ranker.tar.gz", Body=_archive())
        template = json.dumps(_many("s3://archives/models/", Environment={}))
        cfn.create_stack(StackName="stack", TemplateBody=template)
        cfn.get_waiter("stack_create_complete").wait(
            StackName="stack", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        yield aws


@pytest.mark.long
def test_the_double_predicts_with_the_target(real: LocalAws) -> None:
    answer = real.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="ranker",
        TargetModel="ranker.tar.gz",
        ContentType="application/json",
        Body=(GOLDEN / "request-rows.json").read_bytes(),
    )
    predictions = json.loads(answer["Body"].read())["predictions"]
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
    assert predictions == pytest.approx(wanted, abs=1e-5)


@pytest.mark.long
def test_an_unloaded_target_is_loaded_again(real: LocalAws) -> None:
    """Since 2.20: the first request after its model server has ended is answered 404."""
    runtime = real.client("sagemaker-runtime")
    asked = {
        "EndpointName": "ranker",
        "TargetModel": "ranker.tar.gz",
        "ContentType": "application/json",
        "Body": (GOLDEN / "request-rows.json").read_bytes(),
    }
    runtime.invoke_endpoint(**asked)
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
        answer = runtime.invoke_endpoint(
            EndpointName="ranker", TargetModel=f"times-{factor}.tar.gz", Body=body
        )
        return json.loads(answer["Body"].read())

    answers = [ask(factor, b"2") for factor in (5, 7, 5)]
    assert answers == [
        {"factor": 5, "answer": 30.0},
        {"factor": 7, "answer": 42.0},
        {"factor": 5, "answer": 30.0},
    ]
    for factor in (5, 7):
        with pytest.raises(ClientError, match=f"send a number, for {factor}"):
            ask(factor, b"two")
