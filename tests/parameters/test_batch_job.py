"""What is derived for a batch, each with its reason, the request that starts its job, and batches alone."""

from pathlib import Path

import botocore.session
import pytest
from botocore.validate import ParamValidator

from infra.parameters.batch.job import BatchJob, find_batch_job
from infra.parameters.finding import Severity
from infra.preflight.check import check
from tests.batches import build_batch_example
from tests.conftest import VALID, Environment, valid
from tests.preflight.overlay import overlaid

HANDLER = 'models.ranker.handler = "servable"\n'
CODE = 'models.ranker.code = "code"\n'
MEASURED = "variants.primary.scaling.max_concurrency_per_instance = 7.5"
LARGE = {"instance_type": "ml.c5.4xlarge"}


def nightly(project: Path, lines: str = "", **keys: str | int | bool) -> BatchJob:
    draft = overlaid(project, f"{lines}\n{build_batch_example(**keys)}").draft
    assert draft is not None
    job = find_batch_job(draft, "nightly")
    assert job is not None
    return job


def test_a_request_has_many_records_where_each_is_answered_by_a_line(project: Path) -> None:  # fmt: skip
    cases: list[tuple[str, dict[str, str | int | bool], str | None, int]] = [
        ("", {}, "single_record", 6),
        (HANDLER, {}, "multi_record", 1),
        (HANDLER, {"content_type": "application/jsonlines; charset=utf-8"}, "multi_record", 1),
        (HANDLER, {"accept": "application/json"}, "single_record", 6),
        (HANDLER, {"content_type": "application/json"}, None, 6),
        (CODE, {}, "single_record", 6),
        (HANDLER, {"max_concurrent": 60, "split": "none"}, None, 1),
        (HANDLER + "traffic = { request_bytes = 4_500_000, rows_per_request = 2 }", {},
         "multi_record", 3),
    ]  # fmt: skip
    for lines, keys, strategy, payload_mb in cases:  # fmt: skip
        job = nightly(project, lines, **keys)
        assert (job.strategy.value, job.payload_mb.value) == (strategy, payload_mb)
    for lines, accept in [("", "application/json"), (HANDLER, "text/csv"), (CODE, "text/csv")]:
        assert nightly(project, lines).accept.value == accept
    found = nightly(project).placement.build_key("container.omp_threads")
    assert found == "batch.nightly.container.omp_threads"


@pytest.mark.parametrize(("lines", "keys", "at_a_time", "reason"), [
    ("", LARGE, 16, "one for each of 16 vCPUs"),
    (HANDLER, LARGE, 16, "one for each Gunicorn worker"),
    (HANDLER + "batch.nightly.container.gunicorn_workers = 3", {}, 3, "one for each Gunicorn worker"),
    (HANDLER, {**LARGE, "payload_mb": 10}, 10, "one for each Gunicorn worker; more would exceed 100 MB "
     "in flight"),
    (MEASURED, {}, 7, "measured on variants.primary"),
    (MEASURED, LARGE, 16, "one for each of 16 vCPUs"),
    ("", {"max_concurrent": 2}, 2, "from the file"),
])  # fmt: skip
def test_requests_at_a_time_are_as_many_as_the_container_answers(
    project: Path, lines: str, keys: dict[str, str | int | bool], at_a_time: int, reason: str
) -> None:  # fmt: skip
    choice = nightly(project, lines, **keys).max_concurrent
    assert (choice.value, choice.reason) == (at_a_time, reason)


def test_every_timeout_of_the_container_outlasts_the_job_s_and_the_load(project: Path) -> None:
    for lines in ["", HANDLER]:
        settings = nightly(project, lines, timeout_seconds=900).settings
        waits = [settings.nginx_read_timeout_seconds, settings.wait_time_seconds]
        waits += [settings.gunicorn_timeout_seconds] if lines else []
        assert waits == [930] * len(waits)
    artifact = f'{{ uri = "s3://models/a/model.tar.gz", sha256 = "{"a" * 64}", size_gib = 100 }}'
    lines = f"models.ranker.artifact = {artifact}"
    job = nightly(project, lines, instance_type="ml.m5.24xlarge", timeout_seconds=1)
    chosen = {choice.name: choice.value for choice in job.placement.derived.choices}
    assert job.settings.wait_time_seconds == chosen["wait_time_seconds"] > 31


@pytest.mark.parametrize(
    ("lines", "keys", "rows"),
    [("", {}, 4), (HANDLER, {}, None), ("", {"max_concurrent": 1}, None), (HANDLER, {"split": "none"}, None)],
)  # fmt: skip
def test_the_model_server_batches_records_that_come_one_by_one(
    project: Path, lines: str, keys: dict[str, str | int | bool], rows: int | None
) -> None:
    batching = nightly(project, lines, **keys).settings.batching
    assert (batching and batching.max_batch_size) == rows


EVERYTHING: dict[str, str | int | bool] = {
    "instances": 2, "compression": "gzip", "join": True, "input_filter": "$[1:]",
    "output_filter": "$[0,-1]", "output_kms_key": "arn:aws:kms:eu-west-1:111111111111:key/a",
    "payload_mb": 2, "max_concurrent": 3, "timeout_seconds": 120, "max_retries": 1,
}  # fmt: skip


def test_every_key_is_in_the_request_which_botocore_takes(project: Path) -> None:
    lines = HANDLER + 'endpoint.volume_kms_key = "alias/volumes"\ntags = { team = "ranking" }'
    assert nightly(project, lines, **EVERYTHING).build_request(job_name="job", model_name="model") == {
        "TransformJobName": "job", "ModelName": "model", "MaxConcurrentTransforms": 3,
        "MaxPayloadInMB": 2, "BatchStrategy": "MultiRecord",
        "ModelClientConfig": {"InvocationsTimeoutInSeconds": 120, "InvocationsMaxRetries": 1},
        "TransformInput": {
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tables/rows/"}},
            "ContentType": "text/csv", "CompressionType": "Gzip", "SplitType": "Line",
        },
        "TransformOutput": {
            "S3OutputPath": "s3://tables/scores/", "Accept": "text/csv", "AssembleWith": "Line",
            "KmsKeyId": "arn:aws:kms:eu-west-1:111111111111:key/a",
        },
        "TransformResources": {
            "InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeKmsKeyId": "alias/volumes",
        },
        "DataProcessing": {"InputFilter": "$[1:]", "OutputFilter": "$[0,-1]", "JoinSource": "Input"},
        "Tags": [{"Key": "team", "Value": "ranking"}],
    }  # fmt: skip
    cases: list[dict[str, str | int | bool]] = [EVERYTHING, {}, {"instance_type": "ml.g5.xlarge"}]
    for keys in cases:
        model = botocore.session.get_session().get_service_model("sagemaker")
        shape = model.operation_model("CreateTransformJob").input_shape
        job = nightly(project, HANDLER, **keys)
        request = job.build_request(job_name="job", model_name="model")
        assert ParamValidator().validate(request, shape).generate_report() == ""

    places = {"input_uri": "s3://a/b", "output_uri": "s3://c/d"}
    request = nightly(project).build_request(job_name="job", model_name="model", **places)
    source = request["TransformInput"]["DataSource"]["S3DataSource"]["S3Uri"]
    assert (source, request["TransformOutput"]["S3OutputPath"]) == ("s3://a/b", "s3://c/d")


@pytest.mark.parametrize(("instance_type", "resources"), [
    ("ml.g5.xlarge", {"TransformAmiVersion": "al2-ami-sagemaker-batch-gpu-535"}),
    ("ml.p3.2xlarge", {"VolumeKmsKeyId": "alias/volumes"}),
])  # fmt: skip
def test_disks_take_no_key_and_cuda_12_needs_the_newer_driver(
    project: Path, instance_type: str, resources: dict[str, str]
) -> None:
    lines = 'endpoint.volume_kms_key = "alias/volumes"\n'
    lines += 'models.ranker.tensorflow = "2.10"\n' if "p3" in instance_type else ""
    job = nightly(project, lines, instance_type=instance_type)
    request = job.build_request(job_name="job", model_name="model")
    expected = {"InstanceType": instance_type, "InstanceCount": 1, **resources}
    assert request["TransformResources"] == expected


ALONE = f"""{build_batch_example()}
account = "111111111111"
region = "eu-west-1"
production = false
models.ranker = {{ saved_model = "model", handler = "servable", tensorflow = "2.20" }}
"""


def test_its_batches_have_the_files_name_and_it_can_notify(environment: Environment) -> None:
    for lines, name in [
        ("", "prod"),
        ('service = "ranker"', "ranker-prod"),
        ("endpoint.log_retention_days = 7", "prod"),
        ('endpoint.name = "scores"', "scores"),
    ]:
        assert valid(environment(f"{lines}\n{ALONE}")).environment.endpoint.name == name
    loaded = environment(f"{build_batch_example()}\n{VALID}".replace('name = "ranker"\n', ""))
    assert "endpoint.name" in [finding.key for finding in loaded.findings]

    assert check(environment(ALONE)) == []
    lines = 'alarms = { notify = ["a@example.com"], runbook = "https://example.com" }'
    assert check(environment(f"{lines}\n{ALONE}")) == []
    for lines, key in [
        ("alarms.p99_latency_ms = 100", "alarms.p99_latency_ms"),
        ('alarms.page = ["a@example.com"]', "alarms.page"),
        ("capture = { sample_percent = 10 }", "capture"),
        ('rollout = { strategy = "canary" }', "rollout"),
        ("asynchronous = {}", "asynchronous"),
        ('batch.nightly.timezone = "Europe/Berlin"', "batch.nightly.timezone"),
    ]:
        findings = check(environment(f"{lines}\n{ALONE}"))
        shown = [(one.rule, one.key, one.severity) for one in findings]
        assert shown == [("key-without-partner", key, Severity.WARNING)]
