"""`servable init --from-endpoint`: the files, the list, the next commands, and models that are fetched."""

import io
import json
import shutil
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
from servable.init.from_live import fetch, set_model_paths, write_live_environment
from tests.servable.adoption.snapshots import snapshot
from tests.servable_local.aws.live_endpoints import archive

ANSWER, REQUEST = b'{"predictions": [0.5]}', b'{"instances": [1]}'
CAPTURE = {"DestinationS3Uri": "s3://team/captured/", "InitialSamplingPercentage": 20,
           "CaptureOptions": [{"CaptureMode": "Input"}]}  # fmt: skip
Tables = dict[str, dict[str, Any]]


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
    monkeypatch: pytest.MonkeyPatch, live: LiveSnapshot, request: str = "", **how: Any
) -> int:
    monkeypatch.setattr(from_live, "read_live_snapshot", lambda *_: live)
    given: dict[str, Any] = {"request": Path(request) if request else None, "as_json": not request}
    options = InitOptions(name="dev", **given, **(how or {"from_endpoint": "ranker"}))
    return write_live_environment(options, "123456789012", "us-east-1")


def test_files_and_rows_are_printed_and_the_answer_is_a_golden_one(
    invoke: Mock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live = snapshot(config={"DataCaptureConfig": CAPTURE}, tags={"aws:x": "y"})
    assert adopt(monkeypatch, live, "request.json") == 0
    asked = {"EndpointName": "ranker", "Body": REQUEST, "ContentType": "application/json"}
    invoke.assert_called_once_with(**asked)
    names = {"request": "golden/dev/request.json", "answer": "golden/dev/answer.json"}
    assert [Path(name).read_bytes() for name in names.values()] == [REQUEST, ANSWER]
    tables = tomllib.loads(Path("environments/dev.toml").read_text())
    assert tables["models"]["ranker"]["golden"] == names
    lines = capsys.readouterr().out.splitlines()
    written = [line.removesuffix(": written") for line in lines if line.endswith(": written")]
    assert written[-3:] == ["environments/dev.toml", *names.values()]
    assert all(Path(name).is_file() for name in written)
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


def test_without_an_answer_or_with_a_golden_one_that_exists_nothing_is_written(
    invoke: Mock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Path("golden/dev/answer.json").resolve()
    answer.parent.mkdir(parents=True)
    answer.write_text("mine")
    assert adopt(monkeypatch, snapshot(), "request.json") == 1
    assert answer.read_text() == "mine"
    assert not Path("environments").exists()
    assert f"{answer}: exists already; move it away" in capsys.readouterr().err

    shutil.rmtree("golden")
    failure = {"Error": {"Code": "ModelError", "Message": "no"}}
    invoke.side_effect = ClientError(failure, "InvokeEndpoint")
    for file, problem in (
        ("request.bin", "the content type of the extension '.bin' is unknown"),
        ("request.json", "ranker does not answer it"),
    ):
        with pytest.raises(PackagingError, match=problem):
            adopt(monkeypatch, snapshot(), file)
        assert sorted(path.name for path in Path().iterdir()) == ["request.bin", "request.json"]


# --- models that no archive holds: fetched into the project, and found in their folders


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
