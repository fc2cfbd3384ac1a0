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
from model_packaging.refusal import PackagingError
from servable.init.adoption.expressed import Expressed, convert_live_endpoint
from servable.init.adoption.expressed_model import is_secret
from servable.init.adoption.live_fields import Listed, LiveFields, NotCarried
from servable.init.adoption.live_snapshot import LiveSnapshot
from servable.init.from_live import render_environment
from tests.servable.adoption import snapshots
from tests.servable.adoption.snapshots import ARCHIVE, IMAGE, ROLE, URI, convert, snapshot

# One draw each: letters are drawn one by one.
NAMES = some.integers(0, 9999).map("Zz{:04}".format)
# Every key of what a file may hold; values of each kind that JSON has.
FIELDS = some.recursive(
    some.one_of(some.integers(), some.booleans(), some.text(min_size=1)),
    lambda inner: some.one_of(
        some.lists(inner, max_size=3), some.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)


def variant(result: Expressed) -> dict[str, Any]:
    table: dict[str, Any] = result.tables["variants"]["AllTraffic"]
    return table


def list_untaken(fields: dict[str, Any]) -> list[NotCarried]:
    listed = Listed()
    LiveFields("it", fields, listed).note_rest()
    return listed


def where(result: Expressed) -> list[str]:
    return [row.where for row in result.not_carried]


@pytest.mark.long
@given(some.dictionaries(NAMES, FIELDS, max_size=5))
def test_every_field_that_is_not_taken_is_listed(fields: dict[str, Any]) -> None:
    def leaves(value: Any) -> int:
        if isinstance(value, dict):
            return sum(map(leaves, value.values()))
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            return sum(map(leaves, value))
        return int(value not in ([], ""))

    assert len(list_untaken(fields)) == leaves(fields)


@settings(max_examples=40)
@given(some.dictionaries(NAMES, FIELDS, min_size=1))
def test_a_field_that_aws_adds_to_a_variant_is_listed(fields: dict[str, Any]) -> None:
    named = {name for name, value in fields.items() if list_untaken({name: value})}
    listed = " ".join(where(convert(variant=fields)))
    assert {name for name in named if name not in listed} == set()


@pytest.mark.long
@given(
    some.dictionaries(
        some.sampled_from(["FEATURES", "MODE", "API_KEY", "DB_PASSWORD", "SAGEMAKER_BIND_TO_PORT"]),
        some.text(some.characters(codec="ascii", exclude_categories=["Cc"]), min_size=12),
    )
)
def test_every_variable_is_in_the_file_or_in_the_list(variables: dict[str, str]) -> None:
    result = convert(container={"Environment": variables})
    told = [*variant(result).get("environment", {}), " ".join(where(result))]
    assert [
        name for name in variables if name not in told and f"variable {name}" not in told[-1]
    ] == []


@pytest.mark.long
@given(some.text(some.characters(codec="ascii", exclude_categories=["Cc"]), min_size=6))
def test_the_value_of_a_named_password_is_nowhere(secret: str) -> None:
    secret = f"S3cr.{secret}.t"
    result = convert(container={"Environment": {"DATABASE_PASSWORD": secret}})
    assert secret not in render_environment(result, source="endpoint ranker")


def test_a_variable_that_may_be_a_secret_is_named_and_its_value_is_nowhere() -> None:
    cases: list[tuple[str, str]] = [
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
        ("MAX_TOKENS", "100000"),
        ("MAX_TOKENS", "51x"),
        ("KEY_HASH", "a1" * 16),
    ]
    for name, value in cases:
        result = convert(container={"Environment": {name: value}})
        text = render_environment(result, source="endpoint ranker").replace("123456789012", "")
        found = (value in text, json.dumps(value) in text, f"variable {name}" in text)
        assert found == (False, False, True)


def test_a_variable_that_is_no_secret_is_kept() -> None:
    cases: list[tuple[str, str]] = [
        ("FEATURE_TABLE", "features-v2"),
        ("MAX_TOKENS", "99999"),
        ("KEY_HASH", ("a1" * 16)[1:]),
        ("DB_PASSWORD", "true"),
        ("DB_PASSWORD", ""),
        ("TOKENIZER", "bert-base-uncased"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("DB_SECRET_ARN", "arn:aws:secretsmanager:us-east-1:123456789012:secret:db-a1b2c3"),
        ("AUTHOR", "ranking"),
        ("BYPASS", "1"),
        ("VOCABULARY", "s3://team-models/run-7/vocabulary.txt"),
        ("MODEL_NAME", "ranker-2026-11-20-10-15-00"),
        ("ENDPOINT", "https://features.internal:8443/v1?limit=10"),
        ("SETTINGS", '{"cutoff": 0.3, "columns": ["a", "b"]}'),
        ("SAGEMAKER_SUBMIT_DIRECTORY", "s3://b/tensorflow-inference-2026-11-28/sourcedir.tar.gz"),
    ]
    for name, value in cases:
        assert not is_secret(name, value)


def test_the_text_is_the_tables_and_these_are_an_environment() -> None:
    result = convert(targets=[snapshots.target()], policies=[snapshots.tracking()])
    assert tomllib.loads(render_environment(result, source="endpoint ranker")) == result.tables
    tables = convert().tables
    assert Environment.model_validate(tables).variants["AllTraffic"].min_instances == 2
    assert tables["endpoint"]["execution_role"] == ROLE
    assert "execution_role" not in tables["models"]["ranker"]
    absent: tuple[tuple[dict[str, Any], str], ...] = (
        ({"endpoint": {}}, "config"), ({"endpoint": {}, "config": {}}, "ranker-1")
    )  # fmt: skip
    for parts, name in absent:
        found = convert_live_endpoint(replace(snapshot(), **parts))
        assert found.tables["endpoint"]["name"] == name
    row = NotCarried("alarm \x1b]0;owned\x07", "\x9b2J\x7f", "has no key", "lost")
    result = Expressed(tables={"account": "123456789012"}, sources={}, not_carried=(row,))
    text = render_environment(result, source="endpoint a\x1b[2J\nb")
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text) == []
    assert tomllib.loads(text) == result.tables


def test_an_archive_names_its_table_and_what_it_leaves_open_is_listed() -> None:
    (table,) = convert(archive=replace(ARCHIVE, models={"half_two": [1]})).tables["models"].values()
    assert table["artifact"]["default_model"] == "half_two"
    problem = "export/saved_model.pb: not in a folder named with digits"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"models": {"a": [1], "b": [1]}}, "the container finds a, b"),
        ({"models": {}, "problems": [problem]}, "not in a folder named with digits"),
    ]
    for found, said in cases:
        listed = convert(archive=replace(ARCHIVE, **found)).not_carried
        assert said in " ".join(row.reason for row in listed)

    live = snapshot()
    (first,) = live.config["ProductionVariants"]
    uri = "s3://team/run-8/model.tar.gz"
    other = {"PrimaryContainer": {"Image": IMAGE, "ModelDataUrl": uri}, "ExecutionRoleArn": "other"}
    both = replace(
        live,
        config={"ProductionVariants": [first, {**first, "VariantName": "B", "ModelName": "b"}]},
        models={**live.models, "b": other},
        archives={**live.archives, uri: ARCHIVE},
    )
    tables = convert_live_endpoint(both).tables
    named = [table["artifact"].get("default_model") for table in tables["models"].values()]
    assert (named, "execution_role" in tables["endpoint"]) == ([None, "ranker"], False)


def test_a_field_or_variable_is_a_key() -> None:
    least = "least_outstanding_requests"
    cases: list[tuple[dict[str, Any], str, object]] = [
        ({"VolumeSizeInGB": 50}, "volume_gb", 50),
        ({"ModelDataDownloadTimeoutInSeconds": 900}, "download_timeout_seconds", 900),
        ({"ContainerStartupHealthCheckTimeoutInSeconds": 90}, "startup_timeout_seconds", 90),
        ({"EnableSSMAccess": True}, "ssm_access", True),
        ({"RoutingConfig": {"RoutingStrategy": least.upper()}}, "routing", least),
        ({}, "routing", "random"),
        ({"InitialVariantWeight": 0.25}, "weight", 0.25),
    ]
    for fields, key, value in cases:
        assert variant(convert(variant=fields))[key] == value
    for name, value, key, written in (
        ("SAGEMAKER_GUNICORN_WORKERS", "4", "gunicorn_workers", 4),
        ("SAGEMAKER_GUNICORN_WORKER_CLASS", "gthread", "gunicorn_worker_class", "gthread"),
        ("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", "0.1", "gpu_memory_margin", 0.1),
        ("TF_ENABLE_ONEDNN_OPTS", "0", "onednn", False),
        ("UNSET", "", "gunicorn_timeout_seconds", 30),
        ("UNSET", "", "tfs_processes", 1),
    ):
        result = convert(container={"Environment": {name: value}})
        assert variant(result)["container"][key] == written
    many = {"Mode": "MultiModel", "ModelDataUrl": "s3://team/many/"}
    result = convert(container=many, prefixes={"s3://team/many/": ["a.tar.gz"]})
    assert "tfs_processes" not in variant(result)["container"]


def test_what_no_file_can_describe_is_refused_with_the_reason() -> None:
    cases: list[tuple[LiveSnapshot, str]] = [
        (snapshot(variant={"ModelName": None}), "inference components"),
        (snapshot(model={"PrimaryContainer": None, "Containers": [{"Image": IMAGE}] * 2}), "pipeline"),
        (snapshot(container={"Image": IMAGE.replace("tensorflow-inference", "pytorch-inference")}),
         "doesn't serve TensorFlow models"),
        (snapshot(container={"ModelDataUrl": None}), "has no archive"),
    ]  # fmt: skip
    for live, problem in cases:
        with pytest.raises(PackagingError, match=problem):
            convert_live_endpoint(live)


def test_what_belongs_to_others_or_has_no_key_is_listed() -> None:
    tags = {"team": "ranking", "aws:cloudformation:stack-name": "old"}
    cases: list[tuple[dict[str, Any], str, object]] = [
        ({"unread": {"alarms": "AccessDenied"}}, "AccessDenied", None),
        ({"tags": tags}, "that stack owns the endpoint", "old"),
        ({"stacks_of_roles": {ROLE: "old"}}, "belongs to stack old", ROLE),
    ]
    for live, reason, value in cases:
        (named,) = (row for row in convert(**live).not_carried if reason in row.reason)
        assert named.where == "alarms" if value is None else named.value == value
    assert convert(tags=tags).tables["tags"] == {"team": "ranking"}

    result = convert(variant={"VolumeSizeInGB": 100_000}, tags={"team": "r" * 300})
    assert {"key variants.AllTraffic.volume_gb", "key tags.team"} <= {*where(result)}
    for uri in [URI, "s3://team/files/"]:
        source = {"S3DataSource": {"S3Uri": uri, "S3DataType": "S3Prefix",
                                   "ModelAccessConfig": {"AcceptEula": True}}}  # fmt: skip
        result = convert(container={"ModelDataUrl": None, "ModelDataSource": source})
        listed = [each for each in where(result) if "ModelDataSource" in each]
        path = "ModelDataSource.S3DataSource.ModelAccessConfig.AcceptEula"
        assert listed == [f"model ranker-1: container: {path}"]


@settings(max_examples=40)
@given(FIELDS, some.sampled_from(["VolumeSizeInGB", "RoutingConfig", "CoreDumpConfig"]))
def test_no_value_of_a_field_raises_anything_but_a_refusal(value: Any, name: str) -> None:
    if name == "RoutingConfig":
        value = {"RoutingStrategy": str(value)}
    if name == "CoreDumpConfig":
        value = {"DestinationS3Uri": str(value)}
    assert convert(variant={name: value}).tables["variants"]
