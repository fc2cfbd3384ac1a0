"""Transform jobs over a bucket, with a stand-in for the container."""

import gzip
import io
import itertools
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_tensors.records import DataProcessing, JsonPath, TransformError, read_records
from tests.servable_local.aws.container_stand_in import MISTAKE
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.test_events import Inbox
from tests.servable_local.aws.transform_case import LINES, TransformCase
from tests.servable_local.aws.watched_endpoint import Watched

ONE_MB = 1 << 20
SINGLE = {"BatchStrategy": "SingleRecord"}
_NUMBERS = itertools.count()


@pytest.fixture
def case(account: Account) -> TransformCase:
    return TransformCase(account)


def run(case: TransformCase, body: bytes | None = None, **job: Any) -> dict[str, Any]:
    """Another job, over `in/a` with that body where one is given."""
    if body is not None:
        case.put("in/a", body)
    return case.run(**{"TransformJobName": f"job-{next(_NUMBERS)}"} | job)


def sent(case: TransformCase, body: bytes, **job: Any) -> list[bytes]:
    """The bodies that the containers of another job get."""
    before = len(case.bodies())
    run(case, body, **job)
    return case.bodies()[before:]


def with_split(split: str, **more: Any) -> dict[str, Any]:
    return {"TransformInput": {"SplitType": split}, **more}


@pytest.mark.long
def test_inputs_are_a_prefix_or_a_manifest(case: TransformCase) -> None:
    case.put("in/a.csv", b"1")
    case.put("in/day/b.csv", b"2")
    manifest = [{"prefix": f"s3://{case.bucket}/in/"}, "day/b.csv"]
    case.put("manifest", json.dumps(manifest).encode())
    listed = [("S3Prefix", prefix) for prefix in ("in/", "in", "in/a")]
    for number, (kind, key) in enumerate([*listed, ("ManifestFile", "manifest")]):
        source = {"S3DataType": kind, "S3Uri": f"s3://{case.bucket}/{key}"}
        took = {"DataSource": {"S3DataSource": source}}
        gave = {"S3OutputPath": f"s3://{case.bucket}/out/{number}/"}
        shown = run(case, TransformInput=took, TransformOutput=gave)
        assert shown["TransformJobStatus"] == "Completed"
    assert case.results() == {
        "0/a.csv.out": b"1", "0/day/b.csv.out": b"2", "1/a.csv.out": b"1", "1/day/b.csv.out": b"2",
        "2/a.csv.out": b"1", "3/day/b.csv.out": b"2",
    }  # fmt: skip


@pytest.mark.long
def test_a_file_is_split_as_the_job_says(case: TransformCase) -> None:
    assert sent(case, b"1\n2\n3\n") == [b"1\n2\n3\n"]
    assert sent(case, b"1\n2\n3", **LINES, **SINGLE) == [b"1", b"2", b"3"]
    rows = b"\n".join([b"x" * (ONE_MB // 2 - 1)] * 5)
    many = sent(case, rows, **LINES, BatchStrategy="MultiRecord", MaxPayloadInMB=1)
    assert [len(body) for body in many] == [ONE_MB - 1, ONE_MB - 1, ONE_MB // 2 - 1]
    took = LINES["TransformInput"] | {"CompressionType": "Gzip"}
    run(case, gzip.compress(b"1\n2\n"), **LINES | {"TransformInput": took})
    assert case.results() == {"a.out": b"1\n2\n"}


@pytest.mark.long
def test_requests_are_parallel_and_results_in_order(case: TransformCase) -> None:
    rows = b"".join(b"%d\n" % number for number in range(40))
    run(case, rows, **LINES, **SINGLE, MaxConcurrentTransforms=8)
    assert case.results() == {"a.out": rows}

    case.model("slow", ECHO="1", BARRIER="3")
    job = {"ModelName": "slow", "MaxConcurrentTransforms": 3, **LINES, **SINGLE}
    assert run(case, b"1\n2\n3\n4\n5\n6\n", **job)["TransformJobStatus"] == "Completed"


def test_results_are_assembled(case: TransformCase) -> None:
    run(case, b"1\n2", **LINES, **SINGLE)
    assert case.results() == {"a.out": b"1\n2\n"}
    run(case, b"1\n2", **with_split("Line"), **SINGLE)
    assert case.results() == {"a.out": b"12"}


def _tf_record(body: bytes) -> bytes:
    return struct.pack("<Q", len(body)) + b"CRC1" + body + b"CRC2"


def _record_io(body: bytes) -> bytes:
    padding = b"\0" * (-len(body) % 4)
    return struct.pack("<II", 0xCED7230A, len(body)) + body + padding


def test_frames_stay_in_requests_of_many(case: TransformCase) -> None:
    for split, frame in (("TFRecord", _tf_record), ("RecordIO", _record_io)):
        both = frame(b"first") + frame(b"second")
        assert sent(case, both, **with_split(split), BatchStrategy="MultiRecord") == [both]
        assert sent(case, both, **with_split(split), **SINGLE) == [b"first", b"second"]


def test_the_container_is_told_of_the_job(case: TransformCase) -> None:
    case.model("plain", OWN="model")
    job = {
        "MaxPayloadInMB": 2,
        "MaxConcurrentTransforms": 3,
        "Environment": {"OWN": "job"},
        **SINGLE,
    }
    forms = {"TransformInput": {"ContentType": "text/csv"}}
    forms |= {"TransformOutput": {"Accept": "application/json"}}
    run(case, b"1", ModelName="plain", **forms, **job)
    told = json.loads(case.results()["a.out"])
    assert told["variables"] == {
        "OWN": "job",
        "SAGEMAKER_BATCH": "true",
        "SAGEMAKER_BATCH_STRATEGY": "SINGLE_RECORD",
        "SAGEMAKER_MAX_PAYLOAD_IN_MB": "2",
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": "3",
    }
    headers = told["headers"]
    assert (headers["Content-Type"], headers["Accept"]) == ("text/csv", "application/json")

    own = {"MaxConcurrentTransforms": 2, "BatchStrategy": "SINGLE_RECORD", "MaxPayloadInMB": 3}
    case.model("own", ECHO="1", EXECUTION_PARAMETERS=json.dumps(own))
    run(case, b"1\n2", ModelName="own", MaxPayloadInMB=5, **with_split("Line"))
    assert "MaxConcurrentTransforms=2, MaxPayloadInMB=5, BatchStrategy=SINGLE_RECORD" in case.log()


@pytest.mark.long
def test_requests_are_sent_again(case: TransformCase) -> None:
    case.model("weak", ECHO="1", HANG_UPS="3")
    assert run(case, b"1", ModelName="weak")["TransformJobStatus"] == "Completed"
    case.model("down", STATUS="500")
    again = {"ModelName": "down", "ModelClientConfig": {"InvocationsMaxRetries": 2}}
    assert sent(case, b"1", **again) == [b"1"] * 3
    assert run(case, b"1", **again)["TransformJobStatus"] == "Failed"

    case.model("slow", TAKES_SECONDS="1.2")
    client = {"InvocationsTimeoutInSeconds": 1, "InvocationsMaxRetries": 0}
    run(case, b"1", ModelName="slow", ModelClientConfig=client)
    assert "in/a: Unable to get response from algorithm" in case.log()


@pytest.mark.long
def test_a_bad_record_fails_its_file_alone(case: TransformCase) -> None:
    assert sent(case, MISTAKE) == [MISTAKE]
    said = [line.split(f"{case.bucket}/in/a: ")[-1] for line in case.log().splitlines()[1:]]
    assert said == ["ClientError: 400", "", "Message:", "the model says no"]

    case.put("in/b", b"2")
    shown = run(case, b"1\n" + MISTAKE, **LINES, **SINGLE)
    assert shown["FailureReason"] == "ClientError: See job logs for more information"
    assert case.results() == {"b.out": b"2\n"}

    case.model("down", STATUS="503")
    shown = run(case, ModelName="down", ModelClientConfig={"InvocationsMaxRetries": 0})
    assert shown["FailureReason"] == "AlgorithmError: See job logs for more information"
    assert "Bad HTTP status received from algorithm: 503" in case.log()


@pytest.mark.long
def test_a_record_is_at_most_as_long_as_the_payload(case: TransformCase) -> None:
    frames: dict[str, Callable[[bytes], bytes]] = {"None": bytes, "Line": bytes}
    frames |= {"TFRecord": _tf_record, "RecordIO": _record_io}
    for number, (split, frame) in enumerate(frames.items(), start=1):
        job = {"MaxPayloadInMB": 1, **with_split(split), **SINGLE}
        assert sent(case, frame(b"x" * ONE_MB), **job) == [b"x" * ONE_MB]
        assert sent(case, frame(b"x" * (ONE_MB + 1)), **job) == []
        assert case.log().count("Too much data for max payload size") == number


@pytest.mark.long
def test_a_file_of_another_form_fails(case: TransformCase) -> None:
    cut = ("TFRecord", _tf_record(b"1")[:-1])
    for split, body in (("TFRecord", b"short"), cut, ("RecordIO", b"no RecordIO")):
        assert run(case, body, **with_split(split))["TransformJobStatus"] == "Failed"
    case.put("in/b", gzip.compress(b"2"))
    for body in (b"no gzip", gzip.compress(b"1\n")[:-4]):
        shown = run(case, body, TransformInput={"CompressionType": "Gzip"})
        assert (shown["TransformJobStatus"], case.results()) == ("Failed", {"b.out": b"2"})


def test_without_objects_or_a_container_that_starts_a_job_fails(case: TransformCase) -> None:
    assert "No S3 objects found" in run(case)["FailureReason"]
    case.account.put_archive(b"BROKEN")
    assert "did not answer its ping" in run(case, b"1")["FailureReason"]


def test_a_job_ends_with_its_container(case: TransformCase) -> None:
    case.put("in/a", b"1")
    case.run()
    assert [one.closed for one in case.containers()] == [True]
    with pytest.raises(ClientError, match="is in status Completed"):
        case.sagemaker.stop_transform_job(TransformJobName="job")
    with pytest.raises(ClientError, match="a job with this name already exists"):
        case.create()

    case.model("slow", TAKES_SECONDS="0.1")
    case.put("in/a", b"1\n" * 100)
    stopped = {"TransformJobName": "stopped"}
    case.create(ModelName="slow", **stopped, **LINES, **SINGLE)
    case.sagemaker.stop_transform_job(**stopped)
    assert case.rested("stopped")["TransformJobStatus"] == "Stopped"
    assert case.results() == {"a.out": b"1"}  # of the first job


def test_the_events_of_a_job_say_its_states(watched: Watched) -> None:
    case = TransformCase(watched.account)
    inbox = Inbox(watched, "aws.sagemaker")
    case.put("in/a", b"1")
    case.run()
    first, last = inbox.events(2)
    assert first["detail-type"] == "SageMaker Transform Job State Change"
    states = [event["detail"]["TransformJobStatus"] for event in (first, last)]
    assert states == ["InProgress", "Completed"]


def test_jobs_are_listed_with_their_tags(case: TransformCase, clock: ManualClock) -> None:
    case.put("in/a", b"1")
    for name in ("first", "second", "third"):
        shown = case.run(TransformJobName=name, Tags=[{"Key": "team", "Value": name}])
        clock.advance(seconds=1)
    tags = case.sagemaker.list_tags(ResourceArn=shown["TransformJobArn"])["Tags"]
    assert tags == [{"Key": "team", "Value": "third"}]

    pages = case.sagemaker.get_paginator("list_transform_jobs")

    def names(**asked: Any) -> list[str]:
        listed = pages.paginate(PaginationConfig={"PageSize": 2}, NameContains="r", **asked)
        return [one["TransformJobName"] for page in listed for one in page["TransformJobSummaries"]]

    assert names(StatusEquals="Completed") == ["third", "first"]
    assert names(CreationTimeAfter="2000-01-01T00:00:00Z") == ["third", "first"]
    assert names(CreationTimeBefore="2000-01-01T00:00:00Z") == []
    assert names(LastModifiedTimeAfter="2100-01-01T00:00:00Z") == []
    assert names(StatusEquals="Failed") == []


def test_what_aws_refuses_is_refused(case: TransformCase) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"MaxPayloadInMB": 101}, "must not exceed 100"),
        ({"MaxPayloadInMB": 51, "MaxConcurrentTransforms": 2}, "must not exceed 100"),
        ({"MaxConcurrentTransforms": 17}, "must not exceed 100"),
        ({"ModelName": "other"}, "Could not find model"),
        ({"DataProcessing": {"InputFilter": "$..id"}}, "not a JSONPath that SageMaker supports"),
        ({"DataProcessing": {"JoinSource": "Input"}}, "needs CSV or JSON"),
        ({"ModelClientConfig": {"InvocationsMaxRetries": 4}}, "less than or equal to 3"),
        ({"DataCaptureConfig": {"DestinationS3Uri": "s3://bucket"}}, "NotImplemented"),
        ({"MaxPayloadInMB": 0}, "NotImplemented"),
    ]
    for request, problem in refused:
        with pytest.raises(ClientError, match=problem):
            case.create(**request)
    at_the_bound = {"MaxPayloadInMB": 50, "MaxConcurrentTransforms": 2}
    shown = run(case, b"1", **at_the_bound)
    assert shown["TransformJobStatus"] == "Completed"
    with pytest.raises(ClientError, match=r"\(ResourceInUse\).*must be unique"):
        case.create(TransformJobName=shown["TransformJobName"])
    with pytest.raises(ClientError, match=r"Requested resource not found\."):
        case.sagemaker.stop_transform_job(TransformJobName="absent")


def test_closing_the_local_aws_ends_a_job(case: TransformCase) -> None:
    case.model("slow", TAKES_SECONDS="5")
    case.put("in/a", b"1")
    case.create(ModelName="slow")
    case.account.hosting.jobs["job"].close()
    assert case.describe()["TransformJobStatus"] == "Stopped"


# --- filters and joins, as SageMaker's guide describes them

CSV = ("text/csv", "Line")
JSON_LINES = ("application/jsonlines", "Line")
JSON = ("application/json", "None")


def processing(form: tuple[str, str], accept: str | None = None, **given: str) -> DataProcessing:
    content_type, split = form
    return DataProcessing({
        "DataProcessing": given,
        "TransformInput": {"ContentType": content_type, "SplitType": split},
        "TransformOutput": {"Accept": accept or content_type, "AssembleWith": split},
    })  # fmt: skip


def through(
    one: DataProcessing, source: bytes, answer: bytes | None = None
) -> tuple[bytes, list[bytes]]:
    """What is sent for a file, and the records of the result; without `answer`, what is sent comes back."""
    split = "Line" if b"\n" in source else "None"
    found = read_records(io.BytesIO(source), split, 100, single=False)
    (batch,) = one.build_batches(found, 100, single=False, end=b"\n")
    sent = bytes(batch.body)
    return sent, list(one.build_results(batch, sent if answer is None else answer))


ROW = {"id": 7, "features": {"a": 1, "b": [10, 11, 12, 13]}}


def test_a_path_selects_what_is_there() -> None:
    cases: list[tuple[str, Any]] = [
        ("$", ROW),
        ("$.id", 7),
        ("$['id']", 7),
        ("$.features.a", 1),
        ("$.features.*", [1, [10, 11, 12, 13]]),
        ("$['id','features']", ROW),
        ("$.['id','features']", ROW),
        ("$.features.b[0]", 10),
        ("$.features.b[-1]", 13),
        ("$.features.b[0,2]", [10, 12]),
        ("$.features.b[1:2]", [11, 12]),
        ("$.features.b[:1]", [10, 11]),
        ("$.features.b[2:]", [12, 13]),
        ("$.features.b[-2:]", [12, 13]),
        ("$.features.b[0,2:]", [10, 12, 13]),
    ]
    for path, selected in cases:
        assert JsonPath(path).select(ROW) == selected
    for path in ["$.other", "$.features.b[4]", "$.features.b[2:4]", "$.id.a"]:
        with pytest.raises(TransformError, match="selects nothing"):
            JsonPath(path).select(ROW)


def test_a_path_that_sagemaker_does_not_support_is_refused() -> None:
    for path in ["", "id", "$..id", "$[?(@.a)]", "$.a.length()", "$['a'", "$[]", "$[a]"]:
        with pytest.raises(ValueError, match="support"):
            JsonPath(path)


def test_rows_of_csv_are_filtered_and_joined_with_their_answers() -> None:
    sent, _ = through(processing(CSV, InputFilter="$[1:]"), b"7,1,2\n8,3,4\n")
    assert sent == b"1,2\n3,4"
    joined = processing(CSV, JoinSource="Input", InputFilter="$[1:]")
    assert through(joined, b"7,1,2\n8,3,4\n", b"0.5\n0.6\n")[1] == [b"7,1,2,0.5", b"8,3,4,0.6"]
    joined = processing(CSV, JoinSource="Input", OutputFilter="$[0,-1]")
    assert through(joined, b"7,1,2\n8,3,4\n", b"0.5\n0.6")[1] == [b"7,0.5", b"8,0.6"]
    source, joined = b'"a,b","say ""x""",1\n2,3,4\n', processing(CSV, JoinSource="Input")
    assert through(joined, source, b"0.5\n0.6")[1][0] == b'"a,b","say ""x""",1,0.5'


def test_what_cannot_be_joined_or_parsed_fails() -> None:
    joined = processing(CSV, JoinSource="Input")
    said = 'Failed to parse output from the algorithm as CSV: bare " in non quoted field'
    with pytest.raises(TransformError, match=f"^{said}$"):
        through(joined, b"1\n2\n", b'{"predictions": [\n[1.0],\n[2.0]\n]}')
    with pytest.raises(TransformError, match="1 output records for 2"):
        through(processing(CSV, JoinSource="Input"), b"1\n2\n", b"0.5\n")
    with pytest.raises(TransformError, match="Failed to parse input as JSON"):
        through(processing(JSON, InputFilter="$.x"), b"{")


def test_answers_are_attributes_of_json_or_stay_as_they_are() -> None:
    filters = {"InputFilter": "$.x", "OutputFilter": "$['id','SageMakerOutput']"}
    joined = processing(JSON_LINES, JoinSource="Input", **filters)
    source = b'{"id":1,"x":[1]}\n{"id":2,"x":[2]}\n'
    sent, result = through(joined, source, b"[0.5]\n[0.6]\n")
    assert sent == b"[1]\n[2]"
    assert result == [b'{"id":1,"SageMakerOutput":[0.5]}', b'{"id":2,"SageMakerOutput":[0.6]}']
    joined = processing(JSON, JoinSource="Input")
    both = b'{"SageMakerInput":[1],"SageMakerOutput":{"label":1}}'
    assert through(joined, b"[1]", b'{\n"label": 1}')[1] == [both]

    source = json.dumps({"id": "ä"}, ensure_ascii=False).encode()
    assert json.loads(through(joined, source, b"1")[1][0]) == {"id": "ä", "SageMakerOutput": 1}
    answer = b'{"predictions": [1.0]}\n'
    assert through(processing(CSV, InputFilter="$[0]"), b"1\n2\n", answer)[1] == [answer]


def test_forms_that_cannot_be_joined_are_refused() -> None:
    for content_type, accept, lines, problem in [
        ("text/csv", "application/json", "Line", "Accept must equal ContentType"),
        ("text/csv", "text/csv", "None", "needs SplitType and AssembleWith Line"),
        ("application/x-npy", "application/x-npy", "Line", "needs CSV or JSON"),
    ]:
        with pytest.raises(ValueError, match=problem):
            processing((content_type, lines), accept, JoinSource="Input")
