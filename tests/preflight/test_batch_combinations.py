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
HANDLER = VALID.replace("tensorflow", 'handler = "servable"\ntensorflow')
# Combinations that the rules accept; rows/batch.toml has those that they refuse.
ROWS: list[tuple[dict[str, Any], str]] = [
    ({}, HANDLER),
    ({"content_type": LINES, "join": True}, HANDLER),
    ({"content_type": JSON, "join": True}, HANDLER),
    ({"content_type": NPY}, HANDLER),
    ({"compression": "gzip", "split": "none"}, HANDLER),
    ({"input_filter": "$[1:]"}, HANDLER),
    ({"output_filter": "$[0,-1]", "join": True}, HANDLER),
    ({"content_type": LINES, "input_filter": "$.features"}, HANDLER),
    ({"payload_mb": 100, "max_concurrent": 1}, HANDLER),
    ({"payload_mb": 60}, HANDLER),
    ({"max_concurrent": 100}, HANDLER),
    ({"content_type": JSON}, VALID),
    ({"schedule": "at(2026-12-24T18:00:00)", "timezone": "America/New_York"}, HANDLER),
]


@pytest.mark.parametrize(("keys", "text"), ROWS)
def test_a_batch_that_the_rules_accept_is_a_job_as_documented(
    environment: Environment, keys: dict[str, Any], text: str
) -> None:
    loaded = environment(f"{build_batch_example(**keys)}\n{text}")
    assert select_errors(check(loaded)) == []
    job = find_batch_job(valid(loaded).environment, "nightly")
    assert job is not None
    assert undocumented(job.build_request(job_name="nightly", model_name="ranker")) == []


def test_a_batch_has_bounds_of_the_file(environment: Environment) -> None:
    for keys in ({"serverless": True}, {"instances": 101}, {"input_filter": "$" + "[0]" * 21}):
        found = select_errors(check(environment(f"{build_batch_example(**keys)}\n{HANDLER}")))
        assert {finding.rule for finding in found} == {"parameters"}


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
