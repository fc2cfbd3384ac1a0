"""The end of a job: what holds, and how failed requests are told."""

import dataclasses
from typing import Any

from servable.batch.result import BatchResult, FailedRequest, parse_failures

HOLDS = BatchResult(
    job="job", status="Completed", where="aws", instance_type="ml.c5.xlarge", objects_in=2, objects_out=2,
    bytes_in=10, rows_in=4, rows_out=4, seconds=90.0, usd=0.01, output="s3://bucket/out/",
)  # fmt: skip
AT = "2026-11-28T03:00:00.000:[sagemaker logs]: tables/in/"


def test_a_job_holds_if_every_object_and_counted_row_has_its_answer() -> None:
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"status": "Failed"}, False),
        ({"objects_out": 1}, False),
        ({"rows_out": 3}, False),
        ({"rows_out": 5}, False),
        ({"rows_out": None, "not_counted": "answers are arrays"}, True),
    ]
    for change, holds in cases:
        assert dataclasses.replace(HOLDS, **change).is_complete == holds

    told = dataclasses.replace(HOLDS, rows_out=3).as_object()
    assert (told["holds"], told["rows_out"], told["output"]) == (False, 3, "s3://bucket/out/")
    assert HOLDS.as_object()["holds"] is True


def test_the_log_s_lines_of_an_object_are_one_failure_with_the_container_s_words_or_none() -> None:
    messages = [
        "MaxConcurrentTransforms=1, MaxPayloadInMB=6",
        f"{AT}a.csv: ClientError: 400",
        f"{AT}a.csv: ",
        f"{AT}a.csv: Message:",
        f'{AT}a.csv: {{"error": "x: holds \\"five\\", no number"}}',
        f"{AT}b.csv: Unable to get response from algorithm",
    ]
    a, b = parse_failures(messages)
    assert (a.place, a.kind, a.message) == (
        "tables/in/a.csv", "ClientError: 400", 'x: holds "five", no number')  # fmt: skip
    said = "Unable to get response from algorithm"
    assert b == FailedRequest(place="tables/in/b.csv", kind=said, message="")
    for texts, message in [
        (["ClientError: 400", "", "Message:", '{"error": "no', 'number"}'], "no number"),
        (["ClientError: 400", "Message:", "[1]", "", "2"], "[1] 2"),
        (["ClientError: 400", "not a message"], ""),
    ]:
        (failed,) = parse_failures(f"{AT}a.csv: {text}" for text in texts)
        assert (failed.kind, failed.message) == ("ClientError: 400", message)


def test_the_table_of_the_end_says_what_is_known_and_what_is_not() -> None:
    known = dataclasses.replace(
        HOLDS, rows_in=4_000, rows_out=4_000, seconds_with_start=300.0, price="one at $0.2 an hour"
    )
    assert list(known.format_lines()) == [
        "job: Completed",
        "rows in            4,000   in 2 objects",
        "rows out           4,000   in 2 objects",
        "failed                 0",
        "time          1 min 30 s   5 min 0 s including the start of instances",
        "cost             $0.0100   one at $0.2 an hour",
        "results      s3://bucket/out/",
    ]

    failed = (FailedRequest(place="a.csv", kind="ClientError: 400", message=""),)
    unknown = dataclasses.replace(
        HOLDS, status="Failed", reason="it ended", objects_out=1, rows_out=None, failed=failed,
        not_counted="answers are arrays", seconds=None, usd=None, price="no price",
    )  # fmt: skip
    assert list(unknown.format_lines()) == [
        "job: Failed: it ended",
        "rows in                4   in 2 objects",
        "rows out     not counted   in 1 object",
        f"{'':27}answers are arrays",
        "failed                 1",
        f"{'':23}1   ClientError: 400",
        f"{'':27}a.csv",
        f"{'':27}to see which rows failed, download the file and run --local --input FILE",
        "cost           not known   no price",
        "results      s3://bucket/out/",
    ]
    at_home = dataclasses.replace(unknown, instance_type=None)
    assert not [line for line in at_home.format_lines() if "download the file" in line]


def test_failures_are_told_by_kind_from_the_most_frequent_with_the_first_few() -> None:
    failed = tuple(
        FailedRequest(place=f"row {number}", kind="ClientError: 400", message=message)
        for number, message in enumerate(["rare", "often", "often", "often", "often"])
    )
    lines = list(dataclasses.replace(HOLDS, status="Failed", failed=failed).format_lines())
    often, rare = (number for number, line in enumerate(lines) if "ClientError" in line)
    assert lines[often].split() == ["4", "ClientError:", "400:", "often"]
    assert lines[often + 1] == f"{'':27}row 1, row 2, row 3 and 1 more"
    assert lines[rare].split() == ["1", "ClientError:", "400:", "rare"]
    *_, last = dataclasses.replace(HOLDS, rows_out=3).format_lines()
    assert "an empty line has no response" in last
