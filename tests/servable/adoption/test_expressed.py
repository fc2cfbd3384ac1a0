"""A live endpoint as keys of an environment file: nothing is guessed, and nothing is dropped."""

import json
import re
import tomllib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from infra.parameters.environment import Environment
from infra.policy.derived_settings import compute_target_invocations
from model_packaging.refusal import PackagingError
from servable.init.adoption.expressed import Expressed, convert_live_endpoint
from servable.init.adoption.expressed_model import is_secret
from servable.init.adoption.live_fields import LiveFields, NotCarried
from servable.init.adoption.live_snapshot import LiveArchive, LiveSnapshot
from servable.init.from_live import render_environment
from tests.servable.adoption.snapshots import ARCHIVE, IMAGE, URI, alarm, snapshot, target, tracking

# Every key of what a file may hold; values of each kind that JSON has.
FIELDS = some.recursive(
    some.one_of(some.integers(), some.booleans(), some.text(min_size=1)),
    lambda inner: some.one_of(
        some.lists(inner, max_size=3),
        some.dictionaries(some.from_regex(r"[A-Z][a-z]{2,8}", fullmatch=True), inner, max_size=3),
    ),
    max_leaves=8,
)


def variant(result: Expressed) -> dict[str, Any]:
    table: dict[str, Any] = result.tables["variants"]["AllTraffic"]
    return table


def list_untaken(fields: dict[str, Any]) -> list[NotCarried]:
    listed: list[NotCarried] = []
    LiveFields("it", fields, listed).note_rest()
    return listed


def where(result: Expressed) -> list[str]:
    return [row.where for row in result.not_carried]


@given(some.dictionaries(some.from_regex(r"[A-Z][a-z]{2,8}", fullmatch=True), FIELDS, max_size=5))
def test_every_field_that_is_not_taken_is_listed(fields: dict[str, Any]) -> None:
    def leaves(value: Any) -> int:
        if isinstance(value, dict):
            return sum(map(leaves, value.values()))
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            return sum(map(leaves, value))
        return int(value not in ([], ""))

    assert len(list_untaken(fields)) == leaves(fields)


@settings(max_examples=40)
@given(some.dictionaries(some.from_regex(r"Zz[a-z]{2,8}", fullmatch=True), FIELDS, min_size=1))
def test_a_field_that_aws_adds_to_a_variant_is_listed(fields: dict[str, Any]) -> None:
    named = {name for name, value in fields.items() if list_untaken({name: value})}
    listed = " ".join(where(convert_live_endpoint(snapshot(variant=fields))))
    assert {name for name in named if name not in listed} == set()


@given(
    some.floats(0.001, 1_000_000, allow_nan=False),
    some.sampled_from(["SageMakerVariantInvocationsPerInstance"]),
)
def test_a_target_comes_back_as_it_was(value: float, metric: str) -> None:
    value = round(value, 3)
    live = snapshot(targets=[target()], policies=[tracking(metric, value)])
    table = variant(convert_live_endpoint(live))["scaling"]
    again = compute_target_invocations(
        max_rps_per_instance=table["max_rps_per_instance"], safety_factor=table["safety_factor"]
    )
    assert again == pytest.approx(value, rel=1e-9)


@given(
    some.dictionaries(
        some.from_regex(r"[A-Z][A-Z_]{2,12}", fullmatch=True),
        some.text(some.characters(codec="ascii", exclude_categories=["Cc"]), min_size=12),
    )
)
def test_every_variable_is_in_the_file_or_in_the_list(variables: dict[str, str]) -> None:
    result = convert_live_endpoint(snapshot(container={"Environment": variables}))
    listed = " ".join(where(result))
    own = variant(result).get("environment", {})
    assert [
        name for name in variables if name not in own and f"variable {name}" not in listed
    ] == []


@given(some.text(some.characters(codec="ascii", exclude_categories=["Cc"]), min_size=6))
def test_the_value_of_a_named_password_is_nowhere(secret: str) -> None:
    secret = f"S3cr.{secret}.t"
    result = convert_live_endpoint(
        snapshot(container={"Environment": {"DATABASE_PASSWORD": secret}})
    )
    assert secret not in render_environment(result, source="endpoint ranker")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_KEY", "AKIAIOSFODNN7EXAMPLE"),
        ("DATABASE_URL", "postgres://app:s3cr3tpw@db.internal:5432/features"),
        ("REDIS", "redis://:s3cr3tpw@cache:6379/0"),
        ("DSN", "https://abcdef0123456789abcdef0123456789@o1.ingest.sentry.io/1"),
        ("SETTINGS", '{"redis": {"password": "hunter2hunter2"}}'),
        ("CONNECTION", "Server=db;User Id=app;Password=s3cr3tpw;"),
        ("ACCOUNT", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=Zm9vYmFyYmF6cXV4Zm9v"),
        ("SAS", "https://a.blob.core.windows.net/c?sv=2022&sig=abcdefghijkl%3D"),
        ("INPUT", "https://b.s3.amazonaws.com/k?X-Amz-Credential=A/2026&X-Amz-Signature=abc0"),
        ("SLACK", "https://hooks.slack.com/services/T000/B000/XXXX"),
        ("HEADER", "Bearer abcdef123"),
        ("HEADER", "Basic YXBwOnMzY3IzdHB3"),
        ("IDENTITY", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2ln"),
        ("OPENAI", "sk-proj-abcdefghijklmnopqrstuvwxyz012345"),
        ("KEY_FILE", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"),
        ("FERNET", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
        ("PGPASS", "correcthorsebattery"),
        ("API_KEY", "12345"),
        ("DB_PASSWORD", "1234"),
        ("SIGNING_SALT", "pepper"),
        ("AUTH", "xy-zzy"),
        ("SESSION_COOKIE", "abc"),
    ],
)
def test_a_variable_that_may_be_a_secret_is_named_and_its_value_is_nowhere(
    name: str, value: str
) -> None:
    result = convert_live_endpoint(snapshot(container={"Environment": {name: value}}))
    text = render_environment(result, source="endpoint ranker").replace("123456789012", "")
    assert (value in text, json.dumps(value) in text, f"variable {name}" in text) == (
        False,
        False,
        True,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FEATURE_TABLE", "features-v2"),
        ("MAX_TOKENS", "512"),
        ("TOKENIZER", "bert-base-uncased"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("DB_SECRET_ARN", "arn:aws:secretsmanager:us-east-1:123456789012:secret:db-a1b2c3"),
        ("AUTHOR", "ranking"),
        ("BYPASS", "1"),
        ("VOCABULARY", "s3://team-models/run-7/vocabulary.txt"),
        ("MODEL_NAME", "ranker-2026-11-20-10-15-00"),
        ("ENDPOINT", "https://features.internal:8443/v1?limit=10"),
        ("SETTINGS", '{"cutoff": 0.3, "columns": ["a", "b"]}'),
        (
            "SAGEMAKER_SUBMIT_DIRECTORY",
            "s3://bucket/tensorflow-inference-2026-11-28/sourcedir.tar.gz",
        ),
    ],
)
def test_a_variable_that_is_no_secret_is_kept(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_the_text_is_the_tables_and_these_are_an_environment() -> None:
    result = convert_live_endpoint(snapshot(targets=[target()], policies=[tracking()]))
    assert tomllib.loads(render_environment(result, source="endpoint ranker")) == result.tables
    environment = Environment.model_validate(convert_live_endpoint(snapshot()).tables)
    assert environment.variants["AllTraffic"].min_instances == 2
    tables = convert_live_endpoint(snapshot()).tables
    assert (
        tables["endpoint"]["execution_role"],
        "execution_role" in tables["models"]["ranker"],
    ) == ("arn:aws:iam::123456789012:role/sagemaker", False)


def test_what_the_archive_leaves_open_is_listed_or_becomes_the_default_model() -> None:
    archive = LiveArchive(sha256="b" * 64, size_bytes=1, size_gib=0.001, models={"half_two": [1]})
    (table,) = convert_live_endpoint(snapshot(archive=archive)).tables["models"].values()
    assert table["artifact"]["default_model"] == "half_two"

    archive = LiveArchive(sha256="b" * 64, size_bytes=1, size_gib=0.001,
                          models={"a": [1], "b": [1]})  # fmt: skip
    result = convert_live_endpoint(snapshot(archive=archive))
    assert any("the container finds a, b" in row.reason for row in result.not_carried)

    archive = LiveArchive(sha256="b" * 64, size_bytes=1, size_gib=0.001, models={},
                          problems=["export/saved_model.pb: not in a folder named with digits"])  # fmt: skip
    result = convert_live_endpoint(snapshot(archive=archive))
    assert any("not in a folder named with digits" in row.reason for row in result.not_carried)


@pytest.mark.parametrize(
    ("fields", "key", "value"),
    [
        ({"VolumeSizeInGB": 50}, "volume_gb", 50),
        ({"ModelDataDownloadTimeoutInSeconds": 900}, "download_timeout_seconds", 900),
        ({"ContainerStartupHealthCheckTimeoutInSeconds": 90}, "startup_timeout_seconds", 90),
        ({"EnableSSMAccess": True}, "ssm_access", True),
        ({"RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}}, "routing",
         "least_outstanding_requests"),
        ({}, "routing", "random"),
        ({"InitialVariantWeight": 0.25}, "weight", 0.25),
        ({"CoreDumpConfig": {"DestinationS3Uri": "s3://team/dumps/"}}, "core_dumps",
         {"uri": "s3://team/dumps/"}),
    ],
)  # fmt: skip
def test_a_field_of_a_variant_is_a_key(fields: dict[str, Any], key: str, value: object) -> None:
    assert variant(convert_live_endpoint(snapshot(variant=fields)))[key] == value


@pytest.mark.parametrize(
    ("name", "value", "key", "written"),
    [
        ("SAGEMAKER_GUNICORN_WORKERS", "4", "gunicorn_workers", 4),
        ("SAGEMAKER_GUNICORN_WORKER_CLASS", "gthread", "gunicorn_worker_class", "gthread"),
        ("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", "0.1", "gpu_memory_margin", 0.1),
        ("TF_ENABLE_ONEDNN_OPTS", "0", "onednn", False),
        ("UNSET", "", "gunicorn_timeout_seconds", 30),
        ("UNSET", "", "tfs_processes", 1),
    ],
)
def test_a_variable_of_the_image_is_a_key_of_container(
    name: str, value: str, key: str, written: object
) -> None:
    result = convert_live_endpoint(snapshot(container={"Environment": {name: value}}))
    assert variant(result)["container"][key] == written


@pytest.mark.parametrize("value", ["0", "many", "04"])
def test_a_value_that_no_key_can_say_is_listed(value: str) -> None:
    result = convert_live_endpoint(
        snapshot(container={"Environment": {"SAGEMAKER_TFS_INSTANCE_COUNT": value}})
    )
    assert any("SAGEMAKER_TFS_INSTANCE_COUNT" in each for each in where(result))


@pytest.mark.parametrize(
    ("live", "key", "value"),
    [
        (alarm("ModelLatency", "p99", 150_000.0), "p99_latency_ms", 150.0),
        (alarm("Invocation5XXErrors", "Average", 0.02), "error_5xx_percent", 2.0),
        (alarm("CPUUtilization", "Average", 320.0), "cpu_percent", 80.0),
        (alarm("MemoryUtilization", "Maximum", 75.0), "memory_percent", 75.0),
        (alarm("ModelLatency", "p90", 9_000.0, EvaluationPeriods=5), "window_minutes", 5),
    ],
)
def test_a_live_alarm_is_a_threshold_in_the_files_unit(
    live: dict[str, Any], key: str, value: float
) -> None:
    assert convert_live_endpoint(snapshot(alarms=[live])).tables["alarms"][key] == value


@pytest.mark.parametrize(
    "live",
    [
        alarm("ModelLatency", "Average", 150_000.0),
        alarm("Invocation5XXErrors", "Sum", 5.0),
        alarm("ModelLatency", "p99", 100.0, ComparisonOperator="LessThanThreshold"),
        alarm("ModelLatency", "p99", 150_000.0, TreatMissingData="breaching"),
        alarm("ModelLatency", "p99", 150_000.0, AlarmActions=["arn:aws:sns:us-east-1:1:oncall"]),
    ],
)
def test_an_alarm_that_no_key_makes_alike_is_listed(live: dict[str, Any]) -> None:
    assert f"alarm {live['AlarmName']}" in where(convert_live_endpoint(snapshot(alarms=[live])))


@pytest.mark.parametrize(
    ("policy", "table"),
    [
        (
            {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": {
                "Type": "CANARY", "WaitIntervalInSeconds": 600,
                "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10}}}},
            {"strategy": "canary", "canary_percent": 10, "bake_minutes": 10},
        ),
        (
            {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": {
                "Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}, "TerminationWaitInSeconds": 300}},
            {"strategy": "all_at_once", "bake_minutes": 5},
        ),
        (
            {"RollingUpdatePolicy": {"MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
                                     "WaitIntervalInSeconds": 120}},
            {"strategy": "rolling", "batch_percent": 25, "rollback_batch_percent": 100,
             "bake_minutes": 2},
        ),
    ],
)  # fmt: skip
def test_a_deployment_configuration_is_the_rollout(
    policy: dict[str, Any], table: dict[str, Any]
) -> None:
    live = snapshot(endpoint={"LastDeploymentConfig": policy})
    assert convert_live_endpoint(live).tables["rollout"] == table


def test_a_rollout_that_no_key_says_is_listed_and_not_guessed() -> None:
    size = {"Type": "INSTANCE_COUNT", "Value": 1}
    routing = {"Type": "CANARY", "WaitIntervalInSeconds": 600, "CanarySize": size}
    policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}
    result = convert_live_endpoint(snapshot(endpoint={"LastDeploymentConfig": policy}))
    assert ("rollout" in result.tables, "deployment configuration" in where(result)) == (
        False,
        True,
    )

    rolling = {"MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1}}
    deployment = {"RollingUpdatePolicy": rolling,
                  "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "slow"}]}}  # fmt: skip
    rows = convert_live_endpoint(
        snapshot(endpoint={"LastDeploymentConfig": deployment})
    ).not_carried
    assert "slow" in [row.value for row in rows]


@pytest.mark.parametrize(
    ("live", "problem"),
    [
        (snapshot(variant={"ModelName": None}), "inference components"),
        (snapshot(model={"PrimaryContainer": None, "Containers": [{"Image": IMAGE}] * 2}), "pipeline"),
        (snapshot(container={"Image": IMAGE.replace("tensorflow-inference", "pytorch-inference")}),
         "doesn't serve TensorFlow models"),
        (snapshot(container={"ModelDataUrl": None}), "has no archive"),
    ],
)  # fmt: skip
def test_what_no_file_can_describe_is_refused_with_the_reason(
    live: LiveSnapshot, problem: str
) -> None:
    with pytest.raises(PackagingError, match=problem):
        convert_live_endpoint(live)


def test_what_belongs_to_others_or_could_not_be_read_is_listed() -> None:
    result = convert_live_endpoint(snapshot(unread={"alarms": "AccessDenied"}))
    assert [row.where for row in result.not_carried if "AccessDenied" in row.reason] == ["alarms"]

    live = snapshot(tags={"team": "ranking", "aws:cloudformation:stack-name": "old"})
    result = convert_live_endpoint(live)
    named = [row for row in result.not_carried if "that stack owns the endpoint" in row.reason]
    assert (result.tables["tags"], [row.value for row in named]) == ({"team": "ranking"}, ["old"])

    role = "arn:aws:iam::123456789012:role/sagemaker"
    result = convert_live_endpoint(snapshot(stacks_of_roles={role: "old"}))
    named = [row.value for row in result.not_carried if "belongs to stack old" in row.reason]
    assert named == [role]

    group = {"logGroupName": "/aws/sagemaker/Endpoints/ranker"}
    listed = [row for row in convert_live_endpoint(snapshot(log_group=group)).not_carried
              if row.where.startswith("log group")]  # fmt: skip
    assert [row.value for row in listed] == ["for ever"]


@pytest.mark.parametrize(
    ("live", "key"),
    [
        (snapshot(variant={"VolumeSizeInGB": 100_000}), "variants.AllTraffic.volume_gb"),
        (snapshot(variant={"ModelDataDownloadTimeoutInSeconds": 1}),
         "variants.AllTraffic.download_timeout_seconds"),
        (snapshot(tags={"team": "r" * 300}), "tags.team"),
        (snapshot(config={"MetricsConfig": {"MetricPublishFrequencyInSeconds": 7}}),
         "metrics.publish_seconds"),
    ],
)  # fmt: skip
def test_a_live_value_that_its_key_does_not_take_is_listed(live: LiveSnapshot, key: str) -> None:
    assert f"key {key}" in where(convert_live_endpoint(live))


@settings(max_examples=40)
@given(FIELDS, some.sampled_from(["VolumeSizeInGB", "RoutingConfig", "CoreDumpConfig"]))
def test_no_value_of_a_field_raises_anything_but_a_refusal(value: Any, name: str) -> None:
    if name == "RoutingConfig":
        value = {"RoutingStrategy": str(value)}
    if name == "CoreDumpConfig":
        value = {"DestinationS3Uri": str(value)}
    assert convert_live_endpoint(snapshot(variant={name: value})).tables["variants"]


def test_a_pools_model_of_the_same_archive_is_settings_alone() -> None:
    pools = [{"InstanceType": "ml.c5.xlarge", "Priority": 1},
             {"InstanceType": "ml.c6i.xlarge", "Priority": 2, "ModelNameOverride": "wider"}]  # fmt: skip
    live = snapshot(variant={"InstanceType": None, "InstancePools": pools})
    wider = dict(live.models["ranker-1"]) | {"ModelName": "wider", "PrimaryContainer": {
        "Image": IMAGE, "ModelDataUrl": URI, "Environment": {"OMP_NUM_THREADS": "8"}}}  # fmt: skip
    result = convert_live_endpoint(replace(live, models={**live.models, "wider": wider}))
    second = variant(result)["instance_pools"][1]
    assert second["container"] == {"omp_threads": 8}
    assert [each for each in where(result) if "ModelNameOverride" in each] == []


def test_files_under_a_prefix_are_fetched_into_a_folder_named_after_their_model() -> None:
    prefix = "s3://team/files/"
    source = {"S3DataSource": {"S3Uri": prefix, "S3DataType": "S3Prefix"}}
    live = snapshot(container={"ModelDataUrl": None, "ModelDataSource": source},
                   prefixes={prefix: ["1/saved_model.pb"]})  # fmt: skip
    assert convert_live_endpoint(live).sources == {"models/ranker-1": prefix}


def test_without_an_endpoint_it_is_named_after_what_is_read() -> None:
    model = replace(snapshot(), endpoint={}, config={})
    files = [
        convert_live_endpoint(each).tables for each in (replace(snapshot(), endpoint={}), model)
    ]
    assert [tables["endpoint"]["name"] for tables in files] == ["config", "ranker-1"]


@pytest.mark.parametrize("uri", [URI, "s3://team/files/"])
def test_what_a_source_of_model_data_says_besides_its_place_is_listed(uri: str) -> None:
    source = {"S3DataSource": {"S3Uri": uri, "S3DataType": "S3Prefix",
                               "ModelAccessConfig": {"AcceptEula": True}}}  # fmt: skip
    live = snapshot(container={"ModelDataUrl": None, "ModelDataSource": source})
    listed = [each for each in where(convert_live_endpoint(live)) if "ModelDataSource" in each]
    path = "ModelDataSource.S3DataSource.ModelAccessConfig.AcceptEula"
    assert listed == [f"model ranker-1: container: {path}"]


def test_two_live_models_of_one_folder_name_have_tables_of_their_own() -> None:
    live = snapshot()
    other = dict(live.models["ranker-1"]) | {"ModelName": "ranker-2", "PrimaryContainer": {
        "Image": IMAGE, "ModelDataUrl": "s3://team/run-8/model.tar.gz"}}  # fmt: skip
    second = dict(live.config["ProductionVariants"][0]) | {
        "VariantName": "Second", "ModelName": "ranker-2"}  # fmt: skip
    both = LiveSnapshot(
        account=live.account,
        region=live.region,
        endpoint=live.endpoint,
        config=dict(live.config)
        | {"ProductionVariants": [*live.config["ProductionVariants"], second]},
        models={**live.models, "ranker-2": other},
        archives={**live.archives, "s3://team/run-8/model.tar.gz": ARCHIVE},
    )
    models = convert_live_endpoint(both).tables["models"]
    assert [table["artifact"].get("default_model") for table in models.values()] == [None, "ranker"]


def test_a_live_name_with_control_characters_gives_a_valid_comment() -> None:
    row = NotCarried(
        where="alarm \x1b]0;owned\x07", value="\x9b2J\x7f", reason="has no key", effect="lost"
    )
    result = Expressed(tables={"account": "123456789012"}, sources={}, not_carried=(row,))
    text = render_environment(result, source="endpoint a\x1b[2J\nb")
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text) == []
    assert tomllib.loads(text) == result.tables
