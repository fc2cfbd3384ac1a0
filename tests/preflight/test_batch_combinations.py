"""Batches of many combinations of keys: what the rules accept is what CreateTransformJob documents."""

from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from infra.parameters.batch.job import find_batch_job
from infra.preflight.check import check, select_errors
from tests.batches import build_batch_example
from tests.conftest import VALID, Environment, valid

LINES, JSON, NPY = "application/jsonlines", "application/json", "application/x-npy"
OPERATION = botocore.session.get_session().get_service_model("sagemaker")
PLAIN = VALID
HANDLER = VALID.replace("tensorflow", 'handler = "servable"\ntensorflow')
MANY = f"""{HANDLER}[models.many]\nmulti_model = ["ranker"]\n"""
# Keys, the file around them, and the rules that refuse them; none where the job is accepted.
ROWS: list[tuple[dict[str, Any], str, set[str]]] = [
    ({}, HANDLER, set()),
    ({"content_type": LINES, "join": True}, HANDLER, set()),
    ({"content_type": LINES, "join": True, "accept": "text/csv"}, HANDLER, {"transform-join"}),
    ({"content_type": JSON, "join": True}, HANDLER, set()),
    (
        {"content_type": JSON, "join": True, "split": "line", "strategy": "multi_record"},
        HANDLER,
        {"transform-join"},
    ),
    ({"join": True, "split": "none"}, HANDLER, {"transform-join"}),
    ({"join": True, "split": "none", "assemble": "line"}, HANDLER, {"transform-join"}),
    ({"assemble": "none"}, HANDLER, {"transform-assemble"}),
    ({"content_type": NPY}, HANDLER, set()),
    ({"content_type": NPY, "join": True}, HANDLER, {"transform-join"}),
    ({"content_type": NPY, "split": "line"}, HANDLER, {"transform-assemble", "transform-split"}),
    (
        {"content_type": "application/x-tfrecord", "split": "tfrecord"},
        HANDLER,
        {"transform-content-type"},
    ),
    (
        {"content_type": "application/x-recordio", "split": "recordio"},
        PLAIN,
        {"transform-assemble", "transform-content-type"},
    ),
    ({"compression": "gzip"}, HANDLER, set()),
    ({"compression": "gzip", "split": "none"}, HANDLER, set()),
    (
        {"compression": "gzip", "split": "tfrecord"},
        HANDLER,
        {"transform-assemble", "transform-split"},
    ),
    ({"input_filter": "$[1:]"}, HANDLER, set()),
    ({"output_filter": "$[0,-1]", "join": True}, HANDLER, set()),
    ({"output_filter": "$[0,5:]", "join": True}, HANDLER, set()),
    ({"input_filter": "$["}, HANDLER, {"transform-filter"}),
    ({"input_filter": "$.features"}, HANDLER, {"transform-filter"}),
    ({"content_type": LINES, "input_filter": "$.features"}, HANDLER, set()),
    (
        {"content_type": LINES, "output_filter": "$['SageMakerOutput']"},
        HANDLER,
        {"transform-filter"},
    ),
    ({"input_filter": "$[1:]"}, PLAIN, {"transform-join"}),
    ({"payload_mb": 100, "max_concurrent": 1}, HANDLER, set()),
    ({"payload_mb": 60}, HANDLER, set()),
    ({"max_concurrent": 100}, HANDLER, set()),
    ({"payload_mb": 51, "max_concurrent": 2}, HANDLER, {"transform-payload"}),
    ({"split": "none", "strategy": "multi_record"}, HANDLER, {"transform-strategy"}),
    ({"strategy": "multi_record"}, PLAIN, {"transform-lines"}),
    ({"content_type": JSON}, PLAIN, set()),
    ({"schedule": "rate(1 day)", "timezone": "America/New_York"}, HANDLER, set()),
    ({"schedule": "rate(1 day)", "timezone": "Europe/Berln"}, HANDLER, {"transform-schedule"}),
    ({"schedule": "rate(1 days)"}, HANDLER, {"transform-schedule"}),
    ({"schedule": "at(2026-12-24T18:00:00)"}, HANDLER, set()),
    ({"model": "many"}, MANY, {"transform-multi-model"}),
    ({"serverless": True}, HANDLER, {"parameters"}),
    ({"output": "s3://tables/rows"}, HANDLER, {"transform-output-inside"}),
    ({"instance_type": "ml.m6g.xlarge"}, HANDLER, {"transform-instance-type"}),
    ({"instances": 101}, HANDLER, {"parameters"}),
    ({"input_filter": "$" + "[0]" * 21}, HANDLER, {"parameters"}),
]


@pytest.mark.parametrize(("keys", "text", "rules"), ROWS)
def test_a_batch_is_refused_by_its_rules_or_is_a_job_as_documented(
    environment: Environment, keys: dict[str, Any], text: str, rules: set[str]
) -> None:
    loaded = environment(f"{build_batch_example(**keys)}\n{text}")
    assert {finding.rule for finding in select_errors(check(loaded))} == rules
    if not rules:
        job = find_batch_job(valid(loaded).environment, "nightly")
        assert job is not None
        request = job.build_request(job_name="nightly", model_name="ranker")
        assert undocumented(request) == []


def undocumented(request: dict[str, Any]) -> list[str]:
    """What CreateTransformJob does not take: by its model, and by the text of its reference (2026-11-28)."""
    shape = OPERATION.operation_model("CreateTransformJob").input_shape
    report = ParamValidator().validate(request, shape)
    given, result = request["TransformInput"], request["TransformOutput"]
    split, assemble = given.get("SplitType", "None"), result.get("AssembleWith", "None")
    processed, alike = "DataProcessing" in request, given["ContentType"] == result["Accept"]
    lines = given["ContentType"] != JSON and (split, assemble) != ("Line", "Line")
    payload, concurrent = request["MaxPayloadInMB"], request["MaxConcurrentTransforms"]
    broken = {
        report.generate_report(): report.has_errors(),
        "BatchStrategy without SplitType": split == "None" and "BatchStrategy" in request,
        "more than 100 MB under way": payload * concurrent > 100,
        "ContentType is not Accept": processed and not alike,
        "CSV and JSON lines are processed line by line": processed and lines,
    }
    return [problem for problem, is_so in broken.items() if is_so]
