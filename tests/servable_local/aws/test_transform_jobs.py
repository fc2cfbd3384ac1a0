"""Transform jobs over a bucket, with a stand-in for the container."""

import gzip
import json
import struct
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.server import Server
from tests.servable_local.aws.container_stand_in import MISTAKE
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.test_events import Inbox
from tests.servable_local.aws.transform_case import LINES, TransformCase
from tests.servable_local.aws.watched_endpoint import Watched

ONE_MB = 1 << 20


@pytest.fixture
def case(account: Account) -> TransformCase:
    return TransformCase(account)


def lines(**more: Any) -> dict[str, Any]:
    return LINES | more


def with_split(split: str, **more: Any) -> dict[str, Any]:
    return {"TransformInput": {"SplitType": split}, **more}


def test_inputs_are_a_prefix_or_a_manifest(case: TransformCase) -> None:
    case.put("in/a.csv", b"1")
    case.put("in/day/b.csv", b"2")
    assert case.run()["TransformJobStatus"] == "Completed"
    assert case.results() == {"a.csv.out": b"1", "day/b.csv.out": b"2"}

    case = TransformCase(case.account.another())
    case.put("in/a.csv", b"1")
    for number, prefix in enumerate(["in", "in/a"]):
        source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{case.bucket}/{prefix}"}
        output = {"S3OutputPath": f"s3://{case.bucket}/out/{number}/"}
        case.run(
            TransformJobName=f"job-{number}",
            TransformInput={"DataSource": {"S3DataSource": source}},
            TransformOutput=output,
        )
    assert list(case.results()) == ["0/a.csv.out", "1/a.csv.out"]

    case = TransformCase(case.account.another())
    case.put("in/a.csv", b"1")
    case.put("in/b.csv", b"2")
    manifest = [{"prefix": f"s3://{case.bucket}/in/"}, "b.csv"]
    case.put("manifest", json.dumps(manifest).encode())
    source = {"S3DataType": "ManifestFile", "S3Uri": f"s3://{case.bucket}/manifest"}
    case.run(TransformInput={"DataSource": {"S3DataSource": source}})
    assert case.results() == {"b.csv.out": b"2"}


def test_a_file_is_split_as_the_job_says(case: TransformCase) -> None:
    case.put("in/a.csv", b"1\n2\n3\n")
    case.run()
    assert case.bodies() == [b"1\n2\n3\n"]

    case = TransformCase(case.account.another())
    row = b"x" * (ONE_MB // 2 - 1)
    case.put("in/a.csv", b"\n".join([row] * 5))
    case.run(**lines(BatchStrategy="MultiRecord", MaxPayloadInMB=1))
    assert [len(body) for body in case.bodies()] == [ONE_MB - 1, ONE_MB - 1, ONE_MB // 2 - 1]

    case = TransformCase(case.account.another())
    case.put("in/a.csv", b"1\n2\n3")
    case.run(**lines(BatchStrategy="SingleRecord"))
    assert case.bodies() == [b"1", b"2", b"3"]

    case = TransformCase(case.account.another())
    case.put("in/a.csv.gz", gzip.compress(b"1\n2\n"))
    took = LINES["TransformInput"] | {"CompressionType": "Gzip"}
    case.run(**lines(TransformInput=took))
    assert case.results() == {"a.csv.gz.out": b"1\n2\n"}


def test_requests_are_parallel_and_results_in_order(case: TransformCase) -> None:
    rows = b"".join(b"%d\n" % number for number in range(40))
    case.put("in/a.csv", rows)
    case.run(**lines(BatchStrategy="SingleRecord", MaxConcurrentTransforms=8))
    assert case.results() == {"a.csv.out": rows}

    case = TransformCase(case.account.another())
    case.model("slow", ECHO="1", BARRIER="3")
    case.put("in/a.csv", b"1\n2\n3\n4\n5\n6\n")
    job = lines(ModelName="slow", BatchStrategy="SingleRecord", MaxConcurrentTransforms=3)
    assert case.run(**job)["TransformJobStatus"] == "Completed"


def test_results_are_assembled(case: TransformCase) -> None:
    case.put("in/a.csv", b"1\n2")
    case.run(**lines(BatchStrategy="SingleRecord"))
    assert case.results() == {"a.csv.out": b"1\n2\n"}

    case = TransformCase(case.account.another())
    case.put("in/a.csv", b"1\n2")
    case.run(**with_split("Line", BatchStrategy="SingleRecord"))
    assert case.results() == {"a.csv.out": b"12"}


def _tf_record(body: bytes) -> bytes:
    return struct.pack("<Q", len(body)) + b"CRC1" + body + b"CRC2"


def _record_io(body: bytes) -> bytes:
    padding = b"\0" * (-len(body) % 4)
    return struct.pack("<II", 0xCED7230A, len(body)) + body + padding


@pytest.mark.parametrize(
    ("split", "frame"),
    [("TFRecord", _tf_record), ("RecordIO", _record_io)],
    ids=["TFRecord", "RecordIO"],
)
def test_frames_stay_in_requests_of_many(case: TransformCase, split: str, frame: Any) -> None:
    both = frame(b"first") + frame(b"second")
    case.put("in/a", both)
    case.run(**with_split(split, TransformJobName="many", BatchStrategy="MultiRecord"))
    case.run(**with_split(split, TransformJobName="one", BatchStrategy="SingleRecord"))
    assert case.bodies() == [both, b"first", b"second"]


def test_the_container_is_told_of_the_job(case: TransformCase) -> None:
    case.model("plain", OWN="model")
    case.put("in/a", b"1")
    job = {"MaxPayloadInMB": 2, "MaxConcurrentTransforms": 3, "BatchStrategy": "SingleRecord"}
    case.run(ModelName="plain", Environment={"OWN": "job"}, **job)
    assert json.loads(case.results()["a.out"])["variables"] == {
        "OWN": "job",
        "SAGEMAKER_BATCH": "true",
        "SAGEMAKER_BATCH_STRATEGY": "SINGLE_RECORD",
        "SAGEMAKER_MAX_PAYLOAD_IN_MB": "2",
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": "3",
    }

    case = TransformCase(case.account.another())
    case.model("plain")
    case.put("in/a", b"1")
    case.run(
        ModelName="plain",
        TransformInput={"ContentType": "text/csv"},
        TransformOutput={"Accept": "application/json"},
    )
    headers = json.loads(case.results()["a.out"])["headers"]
    assert (headers["Content-Type"], headers["Accept"]) == ("text/csv", "application/json")

    case = TransformCase(case.account.another())
    own = {"MaxConcurrentTransforms": 2, "BatchStrategy": "SINGLE_RECORD", "MaxPayloadInMB": 3}
    case.model("own", ECHO="1", EXECUTION_PARAMETERS=json.dumps(own))
    case.put("in/a", b"1\n2")
    case.run(ModelName="own", MaxPayloadInMB=5, **with_split("Line"))
    assert "MaxConcurrentTransforms=2, MaxPayloadInMB=5, BatchStrategy=SINGLE_RECORD" in case.log()


def test_requests_are_sent_again(case: TransformCase) -> None:
    case.model("weak", ECHO="1", HANG_UPS="3")
    case.put("in/a", b"1")
    assert case.run(ModelName="weak")["TransformJobStatus"] == "Completed"

    case = TransformCase(case.account.another())
    case.model("down", STATUS="500")
    case.put("in/a", b"1")
    shown = case.run(ModelName="down", ModelClientConfig={"InvocationsMaxRetries": 2})
    assert (shown["TransformJobStatus"], len(case.bodies())) == ("Failed", 3)

    case = TransformCase(case.account.another())
    case.model("slow", TAKES_SECONDS="2")
    case.put("in/a", b"1")
    client = {"InvocationsTimeoutInSeconds": 1, "InvocationsMaxRetries": 0}
    case.run(ModelName="slow", ModelClientConfig=client)
    assert "in/a: Unable to get response from algorithm" in case.log()


def test_a_bad_record_fails_its_file_alone(case: TransformCase) -> None:
    case.put("in/a", MISTAKE)
    case.run()
    assert case.bodies() == [MISTAKE]
    said = [line.split(f"{case.bucket}/in/a: ")[-1] for line in case.log().splitlines()[1:]]
    assert said == ["ClientError: 400", "", "Message:", "the model says no"]

    case = TransformCase(case.account.another())
    case.put("in/a", b"1\n" + MISTAKE)
    case.put("in/b", b"2")
    shown = case.run(**lines(BatchStrategy="SingleRecord"))
    assert shown["FailureReason"] == "ClientError: See job logs for more information"
    assert case.results() == {"b.out": b"2\n"}

    case = TransformCase(case.account.another())
    case.model("down", STATUS="503")
    case.put("in/a", b"1")
    shown = case.run(ModelName="down")
    assert shown["FailureReason"] == "AlgorithmError: See job logs for more information"
    assert "Bad HTTP status received from algorithm: 503" in case.log()


@pytest.mark.parametrize("split", ["None", "Line", "TFRecord", "RecordIO"])
def test_a_record_beyond_the_payload_fails_its_file(case: TransformCase, split: str) -> None:
    body = b"x" * (ONE_MB + 1)
    case.put("in/a", {"TFRecord": _tf_record, "RecordIO": _record_io}.get(split, bytes)(body))
    case.run(MaxPayloadInMB=1, **with_split(split))
    assert "Too much data for max payload size" in case.log()


@pytest.mark.parametrize("split", ["None", "Line", "TFRecord", "RecordIO"])
def test_a_record_as_long_as_the_payload_is_sent(case: TransformCase, split: str) -> None:
    body = b"x" * ONE_MB
    case.put("in/a", {"TFRecord": _tf_record, "RecordIO": _record_io}.get(split, bytes)(body))
    strategy = {"BatchStrategy": "SingleRecord"}
    case.run(MaxPayloadInMB=1, **with_split(split, **strategy))
    assert case.bodies() == [body]


@pytest.mark.parametrize(
    ("split", "body"),
    [("TFRecord", b"short"), ("TFRecord", _tf_record(b"1")[:-1]), ("RecordIO", b"no RecordIO")],
)
def test_a_file_of_another_form_fails(case: TransformCase, split: str, body: bytes) -> None:
    case.put("in/a", body)
    assert case.run(**with_split(split))["TransformJobStatus"] == "Failed"


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"1\n")[:-4]], ids=["none", "cut"])
def test_a_file_that_is_no_gzip_fails(case: TransformCase, body: bytes) -> None:
    case.put("in/a.gz", body)
    case.put("in/b.gz", gzip.compress(b"2"))
    shown = case.run(TransformInput={"CompressionType": "Gzip"})
    assert (shown["TransformJobStatus"], case.results()) == ("Failed", {"b.gz.out": b"2"})


def test_a_prefix_without_objects_fails_the_job(case: TransformCase) -> None:
    assert "No S3 objects found" in case.run()["FailureReason"]


def test_a_container_that_does_not_start_fails_the_job(case: TransformCase) -> None:
    case.account.put_archive(b"BROKEN")
    case.put("in/a", b"1")
    assert "did not answer its ping" in case.run()["FailureReason"]


def test_a_job_ends_with_its_container(case: TransformCase) -> None:
    case.put("in/a", b"1")
    case.run()
    assert [one.closed for one in case.containers()] == [True]
    with pytest.raises(ClientError, match="is in status Completed"):
        case.sagemaker.stop_transform_job(TransformJobName="job")
    with pytest.raises(ClientError, match="a job with this name already exists"):
        case.create()

    case = TransformCase(case.account.another())
    case.model("slow", TAKES_SECONDS="0.5")
    case.put("in/a", b"1\n" * 100)
    case.create(ModelName="slow", **lines(BatchStrategy="SingleRecord"))
    case.sagemaker.stop_transform_job(TransformJobName="job")
    assert (case.rested()["TransformJobStatus"], case.results()) == ("Stopped", {})


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
        case.run(TransformJobName=name)
        clock.advance(seconds=1)
    listed = case.sagemaker.get_paginator("list_transform_jobs").paginate(
        PaginationConfig={"PageSize": 2}, StatusEquals="Completed", NameContains="r"
    )
    names = [job["TransformJobName"] for page in listed for job in page["TransformJobSummaries"]]
    assert names == ["third", "first"]

    case = TransformCase(case.account.another())
    case.put("in/a", b"1")
    shown = case.run(Tags=[{"Key": "team", "Value": "search"}])
    tags = case.sagemaker.list_tags(ResourceArn=shown["TransformJobArn"])["Tags"]
    assert tags == [{"Key": "team", "Value": "search"}]


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ({"CreationTimeAfter": "2000-01-01T00:00:00Z"}, ["job"]),
        ({"CreationTimeBefore": "2000-01-01T00:00:00Z"}, []),
        ({"LastModifiedTimeAfter": "2100-01-01T00:00:00Z"}, []),
        ({"StatusEquals": "Failed"}, []),
    ],
)
def test_jobs_are_listed_by_time_and_state(
    case: TransformCase, asked: dict[str, Any], listed: list[str]
) -> None:
    case.put("in/a", b"1")
    case.run()
    jobs = case.sagemaker.list_transform_jobs(**asked)["TransformJobSummaries"]
    assert [job["TransformJobName"] for job in jobs] == listed


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"MaxPayloadInMB": 101}, "must not exceed 100"),
        ({"MaxPayloadInMB": 51, "MaxConcurrentTransforms": 2}, "must not exceed 100"),
        ({"MaxConcurrentTransforms": 17}, "must not exceed 100"),
        ({"ModelName": "other"}, "Could not find model"),
        ({"DataProcessing": {"InputFilter": "$..id"}}, "not a JSONPath that SageMaker supports"),
        ({"DataProcessing": {"JoinSource": "Input"}}, "needs CSV or JSON"),
        ({"ModelClientConfig": {"InvocationsMaxRetries": 4}}, "less than or equal to 3"),
    ],
)
def test_what_aws_refuses_is_refused(
    case: TransformCase, request_: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ClientError, match=problem):
        case.create(**request_)


@pytest.mark.parametrize("at_the_bound", [{"MaxPayloadInMB": 50, "MaxConcurrentTransforms": 2}])
def test_bounds_are_inclusive(case: TransformCase, at_the_bound: dict[str, Any]) -> None:
    case.put("in/a", b"1")
    assert case.run(**at_the_bound)["TransformJobStatus"] == "Completed"


@pytest.mark.parametrize(
    "without_effect",
    [{"DataCaptureConfig": {"DestinationS3Uri": "s3://bucket"}}, {"MaxPayloadInMB": 0}],
)
def test_no_empty_success(case: TransformCase, without_effect: dict[str, Any]) -> None:
    with pytest.raises(ClientError) as refused:
        case.create(**without_effect)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501


def test_closing_the_local_aws_ends_a_job(case: TransformCase, server: Server) -> None:
    case.model("slow", TAKES_SECONDS="5")
    case.put("in/a", b"1")
    case.create(ModelName="slow")
    server.hostings.provide_service(case.account.number, "us-east-1").jobs["job"].close()
    assert case.describe()["TransformJobStatus"] == "Stopped"
