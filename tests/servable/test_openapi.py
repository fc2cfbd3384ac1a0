"""`servable openapi ENV`: golden requests and answers fit its schemas, by a JSON Schema library."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from servable.openapi.command import openapi
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


@pytest.mark.parametrize(
    ("environments", "name", "golden", "answer"),
    [
        ("environments", "dev", "ranker/golden/request-rows", "ranker/golden/answer-rows"),
        ("examples/detector", "g5", "detector/golden/request", "detector/golden/answer"),
        ("examples/retrieval", "c5", "retrieval/golden/request", "retrieval/golden/answer"),
    ],
)
def test_the_golden_request_and_answer_of_a_preset_fit(
    monkeypatch: pytest.MonkeyPatch, environments: str, name: str, golden: str, answer: str
) -> None:
    monkeypatch.chdir(ROOT)
    written = document(name, "--environments", environments)
    request = json.loads((ROOT / "examples" / f"{golden}.json").read_text())
    expected = json.loads((ROOT / "examples" / f"{answer}.json").read_text())
    operation = written["paths"]["/invocations"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["example"] == request
    assert errors(written, "PredictRequest", request) == []
    assert errors(written, "PredictResponse", expected) == []
    for broken in (
        {},
        {"instances": [{}]},
        {"instances": [{**request["instances"][0], "x": 1}, 3]},
    ):
        assert errors(written, "PredictRequest", broken) != []
    assert errors(written, "PredictResponse", {"outputs": []}) != []


def test_columns_and_an_archive_in_s3(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project / "environments" / "prod.toml"
    monkeypatch.chdir(project)
    file.write_text(VALID)
    assert "example" not in json.dumps(document("prod"))
    file.write_text(VALID.replace("[models.ranker]\n", GOLDEN))
    examples = ROOT / "examples" / "ranker" / "golden"
    (project / "golden").mkdir(exist_ok=True)
    request = (examples / "request-columnar.json").read_text()
    (project / "golden" / "request-columnar.json").write_text(request)
    written = document("prod")
    answer = json.loads((examples / "answer-columnar.json").read_text())
    assert errors(written, "PredictRequest", json.loads(request)) == []
    assert errors(written, "PredictResponse", answer) == []
    assert written["servers"][1]["url"] == (
        "https://runtime.sagemaker.eu-west-1.amazonaws.com/endpoints/ranker"
    )
    artifact = (
        'artifact = { uri = "s3://bucket-of-models/ranker.tar.gz", sha256 = "' + "0" * 64 + '" }'
    )
    file.write_text(VALID.replace('saved_model = "model"', artifact))
    ran = CliRunner().invoke(openapi, ["prod"], standalone_mode=False)
    assert "archive in S3" in str(ran.exception)
