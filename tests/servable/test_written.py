"""What `servable openapi`, `permissions`, and `history` write or print."""

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from model_packaging.refusal import PackagingError
from servable.history import command
from servable.history.deployments import Deployment
from servable.openapi.command import openapi
from servable.permissions.command import permissions
from tests.checkouts import ROOT
from tests.conftest import VALID

GOLDEN = '[models.ranker]\ngolden.request = "golden/request-columnar.json"\n'


def document(*words: str) -> dict[str, Any]:
    ran = CliRunner().invoke(openapi, words, standalone_mode=False)
    assert ran.exception is None, ran.exception
    parsed: dict[str, Any] = json.loads(ran.stdout)
    return parsed


def errors(written: dict[str, Any], schema: str, body: Any) -> list[str]:
    validator = Draft202012Validator(written["components"]["schemas"][schema])
    validator.check_schema(validator.schema)
    return [error.message for error in validator.iter_errors(body)]


def test_the_golden_request_and_answer_of_a_preset_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[str, str, str, str]] = [
        ("environments", "dev", "ranker/golden/request-rows", "ranker/golden/answer-rows"),
        ("examples/detector", "g5", "detector/golden/request", "detector/golden/answer"),
        ("examples/retrieval", "c5", "retrieval/golden/request", "retrieval/golden/answer"),
    ]
    monkeypatch.chdir(ROOT)
    for environments, name, golden, answer in cases:
        written = document(name, "--environments", environments)
        files = (ROOT / "examples" / f"{each}.json" for each in (golden, answer))
        request, expected = (json.loads(file.read_text()) for file in files)
        operation = written["paths"]["/invocations"]["post"]
        assert operation["requestBody"]["content"]["application/json"]["example"] == request
        assert errors(written, "PredictRequest", request) == []
        assert errors(written, "PredictResponse", expected) == []
        more = [{**request["instances"][0], "x": 1}, 3]
        broken: Any
        for broken in ({}, {"instances": [{}]}, {"instances": more}):
            assert errors(written, "PredictRequest", broken) != []
        assert errors(written, "PredictResponse", {"outputs": []}) != []


def test_columns_and_an_archive_in_s3(prod: Path) -> None:
    file = prod / "environments" / "prod.toml"
    assert "example" not in json.dumps(document("prod"))
    file.write_text(VALID.replace("[models.ranker]\n", GOLDEN))
    written = document("prod")
    for schema, name in (("PredictRequest", "request"), ("PredictResponse", "answer")):
        body = json.loads((prod / "golden" / f"{name}-columnar.json").read_text())
        assert errors(written, schema, body) == []
    url = "https://runtime.sagemaker.eu-west-1.amazonaws.com/endpoints/ranker"
    assert written["servers"][1]["url"] == url
    artifact = f'artifact = {{ uri = "s3://models/ranker.tar.gz", sha256 = "{"0" * 64}" }}'
    file.write_text(VALID.replace('saved_model = "model"', artifact))
    ran = CliRunner().invoke(openapi, ["prod"], standalone_mode=False)
    assert "archive in S3" in str(ran.exception)


def test_each_policy_is_a_file_with_its_commands_and_two_accounts_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        ran = CliRunner().invoke(permissions, [*arguments, "--out", str(tmp_path / "new")])
        return ran.exit_code, ran.output

    monkeypatch.chdir(ROOT)
    code, said = run("prod")
    assert code == 0, said
    files = sorted((tmp_path / "new").iterdir())
    versions = [json.loads(file.read_text())["Version"] for file in files]
    assert versions == ["2012-10-17", "2012-10-17"]
    arns = ",".join(f"arn:aws:iam::333333333333:policy/{file.stem}" for file in files)
    bootstrap = "cdk bootstrap aws://333333333333/eu-west-1"
    assert f"{bootstrap} --cloudformation-execution-policies '{arns}'" in said
    assert [f"--policy-document file://{file}" in said for file in files] == [True, True]
    code, said = run("prod", "staging")
    assert (code, "one account and region" in said) == (2, True)


def test_a_deployment_has_a_row_with_the_word_of_its_state_and_its_overrides_below(
    prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deployment(number: int | None, live: bool, **more: Any) -> Deployment:
        fields = {"time": "2026-11-22 20:00:00+00:00", "fingerprint": "f" * 64, "record": None}
        return Deployment(number=number, live=live, **fields | more)

    listed = deployment(1, True, record={"overrides": {"endpoint.name": "x"}, "revision": "abc"})
    monkeypatch.setattr(command, "open_account", lambda *given, **options: None)
    monkeypatch.setattr(command, "list_deployments", lambda *given: [listed])
    ran = CliRunner().invoke(command.history, ["prod"], standalone_mode=False)
    heads, cells, *below = ran.stdout.splitlines()
    columns = [heads.index(head) for head in re.split(r" {2,}", heads)]
    assert [re.split(r" {2,}", cells[column:])[0] for column in columns] == [
        "1", "2026-11-22 20:00:00", "live", "ffffffffffff", "abc", "unknown",
    ]  # fmt: skip
    assert below == ["    override: endpoint.name=x"]
    for number, live, known, state in [
        (2, True, True, "live"),
        (1, False, True, "earlier"),
        (None, False, True, "never live"),
        (1, False, False, "not known"),
        (None, False, False, "not known"),
    ]:
        assert command._format_cells(deployment(number, live, state_known=known))[2] == state
    refused = PackagingError(Path("AWS"), "it cannot be asked", "try again")
    monkeypatch.setattr(command, "open_account", Mock(side_effect=refused))
    assert command.history.main(["prod"], standalone_mode=False) == 2
