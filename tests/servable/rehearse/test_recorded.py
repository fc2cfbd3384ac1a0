"""A day that was: counted in files of data capture, or asked of CloudWatch."""

import io
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from servable.rehearse.command import count_captured_requests, read_invocations
from servable.replay.places import LocalPlace, SkippedLines, open_place
from servable_scaling.rehearsal.traffic import TrafficError

DAY = datetime(2026, 11, 20, tzinfo=UTC)
NOW = DAY + timedelta(days=2)
KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}


def lines(*times: str) -> str:
    return "".join(
        json.dumps({"captureData": {}, "eventMetadata": {"inferenceTime": moment}}) + "\n"
        for moment in times
    )


def counted(place: Path, **shares: float) -> tuple[list[float], list[str]]:
    """(requests by the minute, what was skipped)"""
    skipped, folder = SkippedLines(), LocalPlace(place)
    found = count_captured_requests(folder, str(place), skipped, variant="primary", **shares)
    return found, [str(one) for one in skipped.counts]


def test_requests_are_counted_by_the_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(lines("2026-11-20T00:02:59Z", "2026-11-20T00:01:00Z", "2026-11-20T00:02:00.5Z"))
    assert counted(file) == ([0, 1, 2], [])

    file.write_text(lines("2026-11-20T00:02:00"))
    monkeypatch.setenv("TZ", "EST+5")
    time.tzset()
    try:
        assert counted(tmp_path) == ([0, 0, 1], [])
    finally:
        monkeypatch.undo()
        time.tzset()
    file.write_text(lines("2026-11-20T00:00:00Z"))
    assert counted(tmp_path, percent=10, share=0.5) == ([10], [])
    file = tmp_path / "ranker" / "primary" / "2026" / "11" / "20" / "00" / "a.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(lines("2026-11-20T00:00:00Z"))
    assert counted(tmp_path, share=0.25) == ([1 + 4], [])


def test_a_folder_is_counted_with_all_that_it_holds_and_what_is_none_named(tmp_path: Path) -> None:
    moment = "2026-11-20T00:00:00Z"
    for hour in ("00", "01"):
        (tmp_path / hour).mkdir()
        (tmp_path / hour / "a.jsonl").write_text(lines(f"2026-11-20T{hour}:00:00Z"))
    found, _ = counted(tmp_path)
    assert (len(found), sum(found)) == (61, 2)
    (tmp_path / "00" / "manifest.txt").write_text("captured on Friday")
    said = f"{tmp_path}/00/manifest.txt: skipped: its name does not end in .jsonl"
    assert counted(tmp_path / "00") == ([1], [said])
    file = tmp_path / "00" / "a.jsonl"
    for foreign in ("not JSON", "{}", "[]", "1", '{"eventMetadata": null}'):
        file.write_text(lines(moment) + foreign + "\n" + lines(moment))
        said = f"{file}, line 2: skipped: no captured request with its inferenceTime"
        assert counted(file) == ([2], [said])


def test_a_prefix_of_s3_is_counted() -> None:
    s3, name = boto3.client("s3", region_name="us-east-1", **KEYS), "s3://day/captured"
    content = lines("2026-11-20T00:01:00Z").encode()
    listed = {"Contents": [{"Key": "captured/a.jsonl", "Size": len(content)}]}
    body = StreamingBody(io.BytesIO(content), len(content))
    with Stubber(s3) as asked:
        asked.add_response("list_objects_v2", listed, {"Bucket": "day", "Prefix": "captured"})
        where = {"Bucket": "day", "Key": "captured/a.jsonl"}
        asked.add_response("get_object", {"Body": body}, where)
        place = open_place(name, lambda: s3)
        minutes = count_captured_requests(place, name, SkippedLines(), variant="primary")
        assert minutes == [0, 1]


def test_what_is_no_recording_of_a_week_is_refused(tmp_path: Path) -> None:
    for text, said in (
        ("", "no data capture record; allowed"),
        ("{}\n", "no data capture record; .*a.jsonl, line 1: skipped: no captured request"),
        (lines("2026-11-20T00:00:00Z", "2026-11-28T00:00:00Z"), "allowed: at most 7 days"),
    ):
        (tmp_path / "a.jsonl").write_text(text)
        with pytest.raises(TrafficError, match=said):
            counted(tmp_path)


def asked(*pages: dict[int, float], day: datetime = DAY) -> list[float]:
    """`pages`: {minute: requests}, as CloudWatch answers one call after the other."""
    client = boto3.client("cloudwatch", region_name="eu-west-1", **KEYS)
    names = {"EndpointName": "ranker", "VariantName": "primary"}
    dimensions = [{"Name": name, "Value": value} for name, value in names.items()]
    metric = {"Namespace": "AWS/SageMaker", "MetricName": "Invocations", "Dimensions": dimensions}
    query = {"Id": "v0", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"}}
    span = {"StartTime": day, "EndTime": day + timedelta(days=1)}
    expected: dict[str, Any] = {"MetricDataQueries": [query], **span}
    with Stubber(client) as stub:
        for number, page in enumerate(pages, 1):
            times = [day + timedelta(minutes=minute) for minute in page]
            result = {"Id": "v0", "Timestamps": times, "Values": list(page.values())}
            more = {} if number == len(pages) else {"NextToken": f"page {number}"}
            stub.add_response("get_metric_data", {"MetricDataResults": [result], **more}, expected)
            expected = {**expected, "NextToken": f"page {number}"}
        found = read_invocations(client, endpoint="ranker", variants=["primary"], day=day, now=NOW)
        stub.assert_no_pending_responses()
    return found


def test_every_page_of_cloudwatchs_answer_is_taken_and_a_day_without_requests_refused() -> None:
    assert asked({3: 30.0, 1: 10.0}, {0: 5.0, 3: 2.0}) == [5, 10, 0, 32]
    with pytest.raises(TrafficError, match="no requests on 2026-11-20"):
        asked({})
    with pytest.raises(TrafficError, match="allowed: 2026-11-08 and later"):
        asked(day=DAY - timedelta(days=14))


def test_only_the_rehearsed_variant_is_counted(tmp_path: Path) -> None:
    for project, variant, count in (("a", "primary", 3), ("a", "shadow", 5), ("b", "other", 1)):
        folder = tmp_path / project / "ranker" / variant / "2026" / "11" / "20" / "00"
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_text(lines(*["2026-11-20T00:00:00Z"] * count))
    assert counted(tmp_path / "a") == ([3], [])
    with pytest.raises(TrafficError, match="no request of variant primary, only of other"):
        counted(tmp_path / "b")
