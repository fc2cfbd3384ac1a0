"""A transform job as AWS describes it: objects in the local AWS, and the answers about the job canned.

botocore's Stubber checks the answers against SageMaker's model.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError
from botocore.stub import Stubber

from infra.parameters.batch.job import TRIALS
from infra.parameters.environment import Environment
from servable.batch import watch as watched
from servable.batch.objects import BatchError, TransformObjects
from servable.batch.result import BatchResult
from servable.batch.watch import TransformWatch, UnknownJobError
from servable.console import lines as console
from servable.project.account import Account
from servable_local.aws.local_aws import REGION
from tests.servable.batch.deployed_batch import FILE, project
from tests.servable.batch.test_result import loaded
from tests.servable_local.aws.local_account import Account as LocalAccount

JOB = "rows-nightly"
NOW = datetime.now(UTC)


class Table:
    """A bucket with a table, in an account that is taken for AWS's own."""

    def __init__(self, account: LocalAccount, environment: Environment) -> None:
        self.environment = environment
        self.account = account.open()
        self.bucket = f"tables-{account.number}"
        self.s3 = self.account.client("s3")
        self.s3.create_bucket(Bucket=self.bucket)
        self.sagemaker = Stubber(self.account.client("sagemaker"))
        self.logs = Stubber(self.account.client("logs"))

    def put(self, **bodies: bytes) -> None:
        """Put objects; `in_a` is in/a.csv, and `out_a` its result."""
        for name, body in bodies.items():
            folder, _, stem = name.partition("_")
            key = f"{folder}/{stem}.csv" + (".out" if folder == "out" else "")
            self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def request(self, **changed: Any) -> dict[str, Any]:
        took = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{self.bucket}/in/"}
        takes = {"DataSource": {"S3DataSource": took}, "SplitType": "Line"}
        gives = {"S3OutputPath": f"s3://{self.bucket}/out/", "Accept": "text/csv"}
        return {
            "TransformJobName": JOB,
            "ModelName": "numbers",
            "TransformInput": takes | changed.get("takes", {}),
            "TransformOutput": gives | {"AssembleWith": "Line"} | changed.get("gives", {}),
            "TransformResources": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
        }

    def answer(self, request: dict[str, Any] | None = None, **state: Any) -> None:
        """Answer the next DescribeTransformJob; by default the job is complete."""
        times = dict.fromkeys(("CreationTime", "TransformStartTime", "TransformEndTime"), NOW)
        described = {
            "TransformJobArn": f"arn:aws:sagemaker:{REGION}:{self.account.number}:transform-job/{JOB}",
            "TransformJobStatus": "Completed",
            **times,
            **(request or self.request()),
            **state,
        }
        shown = {key: value for key, value in described.items() if value is not None}
        self.sagemaker.add_response("describe_transform_job", shown)
        self.sagemaker.activate()

    def watch(self, request: dict[str, Any] | None = None, **state: Any) -> TransformWatch:
        self.answer(request, **state)
        return TransformWatch(self.account, JOB, "servable batch --attach")

    def result(self, request: dict[str, Any] | None = None, **state: Any) -> BatchResult:
        return self.watch(request, **state).fetch_result(self.environment)

    def lose(self, operation: str, error: Exception, times: int) -> list[int]:
        """End the next `times` calls of an operation of SageMaker with an error; return all of its calls."""
        calls: list[int] = []

        def end(**_: Any) -> None:
            calls.append(1)
            if len(calls) <= times:
                raise error

        events = self.account.client("sagemaker").meta.events
        events.register_first(f"provide-client-params.sagemaker.{operation}", end)
        return calls


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return loaded(project(tmp_path_factory.mktemp("watch") / "project"), FILE)[0]


@pytest.fixture
def table(
    account: LocalAccount, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> Table:
    monkeypatch.setattr(Account, "has_custom_endpoint", False)
    monkeypatch.setattr(watched, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(watched, "_POLL_SECONDS", 0.01)
    return Table(account, environment)


def test_the_result_has_rows_time_and_the_cost_of_every_instance(table: Table) -> None:
    table.put(in_a=b"1\n2\n3\n", in_b=b"4\n", out_a=b"1\n2\n3\n", out_b=b"4\n")
    start, end = NOW + timedelta(minutes=4), NOW + timedelta(minutes=34)
    result = table.result(TransformStartTime=start, TransformEndTime=end)
    assert (result.rows_in, result.rows_out, result.not_counted) == (4, 4, None)
    assert (result.objects_in, result.objects_out, result.bytes_in) == (2, 2, 8)
    assert (result.seconds, result.seconds_with_start) == (1800.0, 34 * 60.0)
    price = table.environment.prices.find_instance_price("ml.c5.xlarge", REGION)
    assert price is not None
    assert result.usd == pytest.approx(2 * price.usd_per_hour / 2)
    assert (result.where, result.instances, result.is_complete) == ("aws", 2, True)
    assert (result.failed, result.output) == ((), f"s3://{table.bucket}/out/")


def test_a_job_that_never_ran_has_neither_time_nor_cost(table: Table) -> None:
    table.put(in_a=b"1\n")
    result = table.result(TransformStartTime=None, TransformJobStatus="Stopped")
    assert (result.status, result.seconds, result.usd) == ("Stopped", None, None)
    assert (result.seconds_with_start, result.rows_out, result.is_complete) == (0.0, 0, False)
    # --- an object of an earlier job is no result
    table.put(out_a=b"1\n")
    soon = datetime.now(UTC) + timedelta(seconds=5)
    assert table.result(CreationTime=soon).objects_out == 0


def test_the_log_of_a_failed_job_names_what_failed(table: Table) -> None:
    table.put(in_a=b"1\n")
    said = f"2026-11-28T03:00:00.000:[sagemaker logs]: {table.bucket}/in/a.csv: ClientError: 400"
    asked = {"logGroupName": "/aws/sagemaker/TransformJobs", "logStreamNamePrefix": f"{JOB}/"}
    events = [
        {"logStreamName": f"{JOB}/i-1", "message": said.replace("400", "500")},
        {"logStreamName": f"{JOB}/i-1/data-log", "message": said},
    ]
    table.logs.add_response("filter_log_events", {"events": events}, asked)
    with table.logs:
        watch = table.watch(TransformJobStatus="Failed", FailureReason="ClientError")
        result = watch.fetch_result(table.environment)
        watch.shown["TransformJobStatus"] = "Stopped"  # it reads no log
        assert watch.fetch_result(table.environment).failed == ()
    table.logs.assert_no_pending_responses()
    failed = [(each.place, each.kind) for each in result.failed]
    assert failed == [(f"{table.bucket}/in/a.csv", "ClientError: 400")]
    assert (result.status, result.reason) == ("Failed", "ClientError")
    # --- without a log, and where it may not be read
    watch = table.watch(TransformJobStatus="Failed")
    table.logs.add_client_error("filter_log_events", "ResourceNotFoundException")
    table.logs.add_client_error("filter_log_events", "AccessDeniedException")
    with table.logs:
        assert watch.fetch_result(table.environment).failed == ()
        with pytest.raises(UnknownJobError, match="AccessDenied"):
            watch.fetch_result(table.environment)


def test_a_job_is_followed_to_its_end(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "SILENT_SECONDS", 0.0)
    table.put(in_a=b"1\n", in_b=b"2\n", out_b=b"2\n")
    watch = table.watch(TransformJobStatus="InProgress", TransformStartTime=None)
    table.answer(TransformJobStatus="InProgress")
    table.answer()
    watch.follow()
    said = capsys.readouterr().err.splitlines()
    assert [line[:26] for line in said] == ["InProgress: 1 of 2 objects"] * 2
    assert watch.shown["TransformJobStatus"] == "Completed"
    table.sagemaker.assert_no_pending_responses()


NO_ROWS = "responses of type application/x-npy don't show how many rows they cover"


@pytest.mark.parametrize(
    ("sent", "body", "answer", "why"),
    [
        ({"gives": {"Accept": "application/x-npy"}}, b"1\n", b"1", NO_ROWS),
        ({"gives": {"Accept": "application/json"}}, b"1\n", b"{", "a result isn't JSON: '{'"),
        ({"takes": {"CompressionType": "Gzip"}}, b"1", b"1\n", "cannot read the input"),
    ],
)
def test_why_rows_are_not_counted_is_told(
    table: Table, sent: dict[str, Any], body: bytes, answer: bytes, why: str
) -> None:  # fmt: skip
    table.put(in_a=body, out_a=answer)
    result = table.result(table.request(**sent))
    assert (result.not_counted, result.rows_in is None or result.rows_out is None) == (why, True)


def test_a_large_input_or_result_is_not_counted(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.put(in_a=b"1\n2\n", out_a=b"10\n20\n")
    for most in (3, 5):
        monkeypatch.setattr(watched, "MOST_COUNTED_BYTES", most)
        result = table.result()
        assert (result.rows_in, result.rows_out) == (None, None)
        assert result.not_counted == f"the input has more than {most / 1e9:g} GB"
    monkeypatch.setattr(watched, "MOST_COUNTED_BYTES", 6)
    assert table.result().rows_out == 2


def test_the_progress_counts_the_objects_that_have_their_result(table: Table) -> None:
    table.put(in_a=b"1\n2\n3\n", in_b=b"4\n")
    began = datetime.now(UTC) - timedelta(hours=3)
    watch = table.watch(TransformJobStatus="InProgress", TransformStartTime=began)
    watch._counting.join()
    assert watch._describe_progress({"a.csv"}) == (
        "InProgress: 1 of 2 objects, 3 of 4 rows; 3 h 0 min; about 1 h 0 min left"
    )
    waits = "; 3 h 0 min; each object's result is written when all its rows are done"
    assert watch._describe_progress(set()) == f"InProgress: 0 of 2 objects, 0 of 4 rows{waits}"
    done = watch._describe_progress({"a.csv", "b.csv"})
    assert done.endswith(f"2 of 2 objects, 4 of 4 rows{waits}")
    watch._rows.pop("b.csv")
    del watch.shown["TransformStartTime"]
    assert watch._describe_progress({"a.csv"}) == (
        "InProgress: 1 of 2 objects; starting instances, which takes 3 to 5 minutes in AWS"
    )


# --- what AWS does not answer


TIMEOUT = ConnectTimeoutError(endpoint_url="https://api.sagemaker")


def test_a_lost_answer_is_asked_for_again_within_the_patience(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.put(in_a=b"1\n")
    watch = table.watch()
    table.lose("DescribeTransformJob", TIMEOUT, 2)
    table.answer()
    monkeypatch.setattr(watched, "_PATIENCE_SECONDS", 60.0)
    assert watch._describe()["TransformJobName"] == JOB


def test_an_answer_that_never_comes_leaves_the_job_unknown(table: Table) -> None:
    table.put(in_a=b"1\n")
    watch = table.watch()
    table.lose("DescribeTransformJob", TIMEOUT, 100)
    message = f"cannot read the state of {JOB}.*servable batch --attach"
    with pytest.raises(UnknownJobError, match=message):
        watch._describe()


def test_a_refused_start_is_an_error_and_a_lost_one_is_unknown(table: Table) -> None:
    table.put(in_a=b"1\n")
    refusal = ClientError({"Error": {"Code": "AccessDenied"}}, "CreateTransformJob")
    table.lose("CreateTransformJob", refusal, 1)
    message = f"{JOB} cannot be started: .*sagemaker:CreateTransformJob"
    with pytest.raises(BatchError, match=message):
        TransformWatch(table.account, JOB, "", request=table.request())
    table.lose("CreateTransformJob", TIMEOUT, 100)
    with pytest.raises(UnknownJobError, match="which may still be running"):
        TransformWatch(table.account, JOB, "", request=table.request())


def test_a_local_aws_that_has_ended_took_the_job_with_it(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.put(in_a=b"1\n")
    watch = table.watch()
    monkeypatch.setattr(Account, "has_custom_endpoint", True)
    monkeypatch.setattr(watched, "_PATIENCE_SECONDS", 60.0)
    error = EndpointConnectionError(endpoint_url="http://127.0.0.1:1")
    calls = table.lose("DescribeTransformJob", error, 100)
    with pytest.raises(UnknownJobError, match="the local AWS has ended, and with it"):
        watch._describe()
    assert len(calls) == 1


# --- objects
def test_the_input_is_the_objects_below_the_prefix(table: Table) -> None:
    with pytest.raises(BatchError, match=f"s3://{table.bucket}/in/: found no objects"):
        TransformObjects(table.s3, table.request())
    table.put(in_a=b"1\n2\n", other_a=b"1\n")
    for key in ("in/", "in/day/", "in/day/b.csv"):
        table.s3.put_object(Bucket=table.bucket, Key=key, Body=b"3\n" * key.endswith("csv"))
    objects = TransformObjects(table.s3, table.request())
    assert [(each.key, each.name, each.size) for each in objects.inputs] == [
        ("in/a.csv", "a.csv", 4), ("in/day/b.csv", "day/b.csv", 2)]  # fmt: skip
    counts = [objects.count_input_records(each) for each in objects.inputs]
    assert (objects.size, counts) == (6, [2, 1])
    manifest = table.request()
    manifest["TransformInput"]["DataSource"]["S3DataSource"]["S3DataType"] = "ManifestFile"
    with pytest.raises(BatchError, match="the job reads a ManifestFile"):
        TransformObjects(table.s3, manifest)


def test_results_are_found_below_the_output_and_counted(table: Table) -> None:
    table.put(in_a=b"1\n2\n", in_b=b"3\n")
    for path in ("out/", "out", ""):
        folder = f"{path.rstrip('/')}/".lstrip("/")
        for name in ("a.csv.out", "b.csv", "c.csv.out"):
            table.s3.put_object(Bucket=table.bucket, Key=f"{folder}{name}", Body=b"1\n2\n")
        sent = table.request(gives={"S3OutputPath": f"s3://{table.bucket}/{path}"})
        objects = TransformObjects(table.s3, sent)
        results = objects.list_results(datetime.now(UTC))
        assert (results, objects.count_output_records(results)) == ({"a.csv": 4}, 2)
        assert objects.list_results(datetime.now(UTC) + timedelta(seconds=3)) == {}


def test_one_result_that_cannot_be_counted_leaves_the_sum_unknown(table: Table) -> None:
    table.put(in_a=b"1\n", in_b=b"1\n", out_a=b'{"predictions": [1]}', out_b=b'{"outputs": [1]}')
    sent = table.request(gives={"Accept": "application/json"}) | {"BatchStrategy": "MultiRecord"}
    objects = TransformObjects(table.s3, sent)
    counted = [objects.count_output_records(names) for names in (["a.csv"], ["a.csv", "b.csv"])]
    assert counted == [1, None]


def test_a_trial_copies_the_first_rows_with_the_batch_s_key(table: Table) -> None:
    table.put(in_a=b"1\n2\n", in_b=b"3\n4\n", in_c=b"5\n")
    objects = TransformObjects(table.s3, table.request())
    for key in (None, "alias/own"):
        assert objects.copy_first_records(4, f"s3://{table.bucket}/trial/in/", key) == 4
        found = table.s3.list_objects_v2(Bucket=table.bucket, Prefix="trial/")["Contents"]
        listed = [each["Key"] for each in found]
        assert listed == ["trial/in/a.csv", "trial/in/b.csv"]
        copied = table.s3.get_object(Bucket=table.bucket, Key=listed[1])
        assert (copied["Body"].read(), copied.get("SSEKMSKeyId")) == (b"3\n4\n", key)
    copies = f"s3://{table.bucket}/{TRIALS}/in/"
    assert objects.copy_first_records(9, copies, None) == 5
    for uri, left in ((f"s3://{table.bucket}/in/", 3), (copies, 0)):
        source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}
        table.watch(table.request(takes={"DataSource": source})).remove_trial()
        folder = uri.removeprefix(f"s3://{table.bucket}/")
        assert table.s3.list_objects_v2(Bucket=table.bucket, Prefix=folder)["KeyCount"] == left
