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
    broken: Any
    for broken in (
        {},
        {"instances": [{}]},
        {"instances": [{**request["instances"][0], "x": 1}, 3]},
    ):
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
    assert written["servers"][1]["url"] == (
        "https://runtime.sagemaker.eu-west-1.amazonaws.com/endpoints/ranker"
    )
    artifact = f'artifact = {{ uri = "s3://models/ranker.tar.gz", sha256 = "{"0" * 64}" }}'
    file.write_text(VALID.replace('saved_model = "model"', artifact))
    ran = CliRunner().invoke(openapi, ["prod"], standalone_mode=False)
    assert "archive in S3" in str(ran.exception)
