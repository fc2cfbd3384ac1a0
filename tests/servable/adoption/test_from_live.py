"""`servable init --from-endpoint`, from the snapshot to the files, the list, and the next commands."""

import io
import json
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from model_packaging.refusal import PackagingError
from servable.init import from_live
from servable.init.adoption.live_snapshot import LiveSnapshot
from servable.init.first_environment import InitOptions
from servable.init.from_live import write_live_environment
from tests.servable.adoption.snapshots import snapshot

ANSWER, REQUEST = b'{"predictions": [0.5]}', b'{"instances": [1]}'
CAPTURE = {"DestinationS3Uri": "s3://team/captured/", "InitialSamplingPercentage": 20,
           "CaptureOptions": [{"CaptureMode": "Input"}]}  # fmt: skip


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """InvokeEndpoint of the account, which returns ANSWER; the working folder has a request."""
    monkeypatch.chdir(tmp_path)
    for ending in ("json", "bin"):
        (tmp_path / f"request.{ending}").write_bytes(REQUEST)
    account = Mock()
    monkeypatch.setattr(from_live, "Account", Mock(return_value=account))
    monkeypatch.setattr(from_live, "find_local_aws", Mock(side_effect=AssertionError))
    called: Mock = account.client("sagemaker-runtime").invoke_endpoint
    called.side_effect = lambda **_: {"Body": io.BytesIO(ANSWER)}
    return called


def adopt(
    monkeypatch: pytest.MonkeyPatch, live: LiveSnapshot, request: str | None = None, **how: Any
) -> int:
    monkeypatch.setattr(from_live, "read_live_snapshot", lambda *_: live)
    live_name = how or {"from_endpoint": "ranker"}
    body = None if request is None else Path(request)
    given = InitOptions(name="dev", request=body, as_json=request is None, **live_name)
    return write_live_environment(given, "123456789012", "us-east-1")


def test_files_and_rows_are_printed_and_the_answer_is_a_golden_one(
    invoke: Mock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live = snapshot(config={"DataCaptureConfig": CAPTURE}, tags={"aws:x": "y"})
    assert adopt(monkeypatch, live, "request.json") == 0
    invoke.assert_called_once_with(
        EndpointName="ranker", Body=REQUEST, ContentType="application/json"
    )
    folder = Path.cwd()
    bodies = [(folder / f"golden/dev/{name}.json").read_bytes() for name in ("request", "answer")]
    assert bodies == [REQUEST, ANSWER]
    tables = tomllib.loads((folder / "environments" / "dev.toml").read_text())
    names = {"request": "golden/dev/request.json", "answer": "golden/dev/answer.json"}
    assert tables["models"]["ranker"]["golden"] == names
    lines = capsys.readouterr().out.splitlines()
    written = [line.removesuffix(": written") for line in lines if line.endswith(": written")]
    assert written[-3:] == ["environments/dev.toml", *names.values()]
    assert all((folder / name).is_file() for name in written)
    heading = lines.index("Equivalent, or configured outside the file:")
    assert lines[heading + 1] == "  tag aws:x = y: AWS's own tag"
    assert lines[lines.index("next:") + 1 :] == [
        "  servable check dev",
        "  servable plan dev --adopt ranker",
        "  servable replay dev --captured s3://team/captured/ranker --gate",
        "  servable golden dev --from-captured s3://team/captured/ranker --write",
        "  npm ci && export PATH=$PWD/node_modules/.bin:$PATH    # the CDK CLI",
        "  cdk bootstrap aws://123456789012/us-east-1    # once per account and region",
        "  cdk deploy 'dev/*'",
        "  servable verify dev",
    ]


def test_json_has_the_files_the_list_and_the_commands(
    invoke: Mock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adopt(monkeypatch, snapshot(tags={"aws:x": "y"}), from_model="ranker-1") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["environment"], found["files"][-1]) == ("dev", "environments/dev.toml")
    row = {"where": "tag aws:x", "value": "y", "reason": "AWS's own tag", "effect": "none"}
    assert row in found["not_carried"]
    assert [step for step in found["next"] if "plan" in step or "replay" in step] == []
    assert found["fetched"] == {}


def test_without_an_answer_nothing_is_written(
    invoke: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = {"Error": {"Code": "ModelError", "Message": "no"}}
    invoke.side_effect = ClientError(failure, "InvokeEndpoint")
    for file, problem in (
        ("request.bin", "the content type of the extension '.bin' is unknown"),
        ("request.json", "ranker does not answer it"),
    ):
        with pytest.raises(PackagingError, match=problem):
            adopt(monkeypatch, snapshot(), file)
        assert sorted(path.name for path in Path().iterdir()) == ["request.bin", "request.json"]


def test_a_golden_answer_that_exists_is_kept(
    invoke: Mock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Path("golden/dev/answer.json").resolve()
    answer.parent.mkdir(parents=True)
    answer.write_text("mine")
    assert adopt(monkeypatch, snapshot(), "request.json") == 1
    assert answer.read_text() == "mine"
    assert not Path("environments").exists()
    assert f"{answer}: exists already; move it away" in capsys.readouterr().err
