"""The end of a job: what holds, and how failed requests are told."""

import dataclasses
from typing import Any

import pytest

from servable.batch.result import BatchResult, FailedRequest, failures_in

HOLDS = BatchResult(
    job="job",
    status="Completed",
    where="aws",
    instance_type="ml.c5.xlarge",
    objects_in=2,
    objects_out=2,
    bytes_in=10,
    rows_in=4,
    rows_out=4,
    seconds=90.0,
    usd=0.01,
    output="s3://bucket/out/",
)
AT = "2026-11-28T03:00:00.000:[sagemaker logs]: tables/in/"


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"status": "Failed"}, False),
        ({"objects_out": 1}, False),
        ({"rows_out": 3}, False),
        ({"rows_out": 5}, False),
        ({"rows_out": None, "not_counted": "answers are arrays"}, True),
    ],
)
def test_a_job_holds_if_every_object_and_counted_row_has_its_answer(
    change: dict[str, Any], holds: bool
) -> None:
    assert dataclasses.replace(HOLDS, **change).holds == holds


def test_the_log_s_lines_of_an_object_are_one_failure() -> None:
    messages = [
        "MaxConcurrentTransforms=1, MaxPayloadInMB=6",
        f"{AT}a.csv: ClientError: 400",
        f"{AT}a.csv: ",
        f"{AT}a.csv: Message:",
        f'{AT}a.csv: {{"error": "x: holds \\"five\\", no number"}}',
        f"{AT}b.csv: Unable to get response from algorithm",
    ]
    assert failures_in(messages) == (
        FailedRequest(
            place="tables/in/a.csv",
            kind="ClientError: 400",
            message='x: holds "five", no number',
        ),
        FailedRequest(
            place="tables/in/b.csv", kind="Unable to get response from algorithm", message=""
        ),
    )


def test_failures_are_told_by_kind_with_the_first_few() -> None:
    failed = tuple(
        FailedRequest(place=f"row {number}", kind="ClientError: 400", message="no number")
        for number in range(5)
    )
    lines = list(dataclasses.replace(HOLDS, status="Failed", failed=failed).lines())
    (kind,) = [number for number, line in enumerate(lines) if "ClientError: 400" in line]
    assert lines[kind].split() == ["5", "ClientError:", "400:", "no", "number"]
    assert lines[kind + 1].strip() == "row 0, row 1, row 2 and 2 more"


def test_rows_without_an_answer_are_told() -> None:
    *_, last = dataclasses.replace(HOLDS, rows_out=3).lines()
    assert "an empty line has no answer" in last
