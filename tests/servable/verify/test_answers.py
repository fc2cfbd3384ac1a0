"""What an endpoint answers, how fast it was, and what its archives and images are."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile, load
from servable.verify import alarms, golden, model
from servable.verify.command import describe_patching
from servable.verify.difference import Difference, Report
from tests.conftest import VALID, valid
from tests.servable.verify.answering import Answer, AnsweringAccount, body, resource, stack

TIME = datetime(2026, 11, 29, 11, 0, 30, tzinfo=timezone(timedelta(hours=1)))  # 10:00 UTC
GOLDEN = """
[models.ranker.golden]
request = "request.json"
answer = "answer.json"
"""
ENDPOINT = {"EndpointStatus": "InService", "LastModifiedTime": TIME}
QUEUED = VALID + GOLDEN + "\n[asynchronous]\n"
SERVING = "arn:aws:iam::111111111111:role/path/serving"


@pytest.fixture
def files(project: Path) -> Path:
    (project / "request.json").write_text('{"instances": [1]}')
    (project / "answer.json").write_text('{"predictions": [0.5]}')
    return project


def loaded(root: Path, text: str = VALID) -> ValidFile:
    (root / "environments" / "prod.toml").write_text(text)
    (found,) = load(root, root / "environments")
    return valid(found)


def ask(
    environment: Environment, predicted: float = 0.5, /, **answers: Answer
) -> tuple[Report, AnsweringAccount]:
    """Compare with an endpoint that predicts this number."""
    content = json.dumps({"predictions": [predicted]}).encode()
    invoke: dict[str, Answer] = {"InvokeEndpoint": lambda asked: {"Body": body(content)}}
    account, report = AnsweringAccount(**invoke | answers), Report(environment="prod")
    report.add(golden.compare_responses(account, environment, report))
    return report, account


def test_a_known_answer_is_compared_with_that_of_the_variant_or_why_it_is_none(files: Path) -> None:
    environment = loaded(files, VALID + GOLDEN).environment
    report, account = ask(environment, 0.50001)
    assert (report.differences, report.answers, report.notes) == ([], "compared", [])
    ((_, asked),) = account.calls
    assert asked == {
        "EndpointName": "ranker",
        "Body": b'{"instances": [1]}',
        "ContentType": "application/json",
        "TargetVariant": "primary",
    }
    report, _ = ask(environment, 0.7)
    (found,) = report.differences
    assert (found.kind, found.resource) == ("golden answer", "ranker/primary")
    assert (found.wanted, found.found, report.answers) == (0.5, 0.7, "compared")
    assert found.key.startswith("request.json: ")

    error = {"Error": {"Code": "ModelError", "Message": "worker died"}}
    failure = Mock(side_effect=ClientError(error, "InvokeEndpoint"))
    report, _ = ask(environment, InvokeEndpoint=failure)
    (found,) = report.differences
    assert (found.wanted, "worker died" in str(found.found)) == (golden.NO_ANSWER, True)
    assert report.answers == "not compared"


def test_without_a_golden_request_or_answer_nothing_is_compared(files: Path) -> None:
    report, account = ask(loaded(files).environment)
    assert (report.answers, report.differences, account.calls) == ("not asked", [], [])
    (note,) = report.notes
    told = "no golden request was sent, because the model has none; set models.NAME.golden"
    assert note == f"primary: {told}"
    (files / "answer.json").unlink()
    environment = loaded(files, VALID + GOLDEN).environment
    report, _ = ask(environment)
    assert (report.answers, report.differences) == ("not compared", [])
    assert report.notes == [
        "ranker/primary: request.json was answered, but there is no answer to compare: "
        "`servable invoke prod --body request.json --output answer.json`"
    ]
    (files / "request.json").unlink()
    report, account = ask(environment)
    (found,) = report.differences
    assert (found.wanted, found.found) == ("a file", "No such file or directory")
    assert (report.answers, account.calls) == ("not asked", [])


def test_the_variant_of_which_least_is_known_decides(files: Path) -> None:
    second = '\n[variants.second]\nmodel = "other"\ninstance_type = "ml.c5.xlarge"\n'
    other = '\n[models.other]\nsaved_model = "model"\ntensorflow = "2.20"\n'
    shadow = second.replace("second", "next") + "shadow = true\n"
    report, account = ask(loaded(files, VALID + GOLDEN + other + second).environment)
    assert (report.answers, len(account.calls)) == ("not asked", 1)
    report, _ = ask(loaded(files, VALID + GOLDEN + other + shadow).environment)
    assert (report.answers, report.notes) == ("compared", [])


def test_each_model_of_a_multi_model_endpoint_is_asked(files: Path) -> None:
    several = '[models.all]\nmulti_model = ["ranker"]\ntensorflow = "2.20"\nserver_memory_gib = 1\n'
    text = VALID.replace('model = "ranker"\n', 'model = "all"\n') + several + GOLDEN
    _, account = ask(loaded(files, text).environment)
    ((_, asked),) = account.calls
    assert (asked["TargetVariant"], asked["TargetModel"]) == ("primary", "ranker.tar.gz")


def queue(*stored: tuple[str, str], count: int = 1) -> dict[str, Answer]:
    """The answers of an asynchronous endpoint whose bucket has these objects."""

    def get(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
        text = dict(stored).get(f"s3://{asked['Bucket']}/{asked['Key']}")
        return None if text is None else {"Body": body(text.encode())}

    return {
        "DescribeEndpoint": {
            **ENDPOINT,
            "ProductionVariants": [{"VariantName": "primary", "CurrentInstanceCount": count}],
            "AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://queue/answers"}},
        },
        "PutObject": {},
        "InvokeEndpointAsync": {
            "OutputLocation": "s3://queue/answers/1", "FailureLocation": "s3://queue/failures/1",
        },
        "GetObject": get,
    }  # fmt: skip


def test_an_asynchronous_request_goes_through_the_bucket_while_an_instance_runs(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = loaded(files, QUEUED).environment
    report, account = ask(environment, **queue(count=0))
    assert (report.answers, report.differences) == ("not asked", [])
    assert "since no instance or copy runs" in report.notes[0]
    assert "PutObject" not in dict(account.calls)
    answers = queue(("s3://queue/answers/1", '{"predictions": [0.5]}'))
    report, account = ask(environment, **answers)
    assert (report.answers, report.differences) == ("compared", [])
    put, invoked = (dict(account.calls)[name] for name in ("PutObject", "InvokeEndpointAsync"))
    assert (put["Bucket"], put["Key"].split("-")[0]) == ("queue", "requests/verify")
    assert invoked["InputLocation"] == f"s3://queue/{put['Key']}"
    assert put["Body"] == b'{"instances": [1]}'
    report, _ = ask(environment, **queue(("s3://queue/failures/1", "worker died")))
    assert [each.found for each in report.differences] == ["worker died"]
    monkeypatch.setattr(golden, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(golden, "POLL_SECONDS", 0.1)
    report, account = ask(environment, **queue())
    assert str(report.differences[0].found).startswith("no response within 0.3 s")
    assert [name for name, _ in account.calls].count("GetObject") >= 4


def test_a_component_is_asked_by_its_name_while_a_copy_runs(files: Path) -> None:
    served = (
        'instance_type = "ml.g5.xlarge"\n[variants.primary.components.first]\nmodel = "ranker"\n'
    )
    text = VALID.replace('model = "ranker"\ninstance_type = "ml.c5.xlarge"\n', served) + GOLDEN
    environment = loaded(files, text).environment
    for copies in [0, 1]:
        described = {"RuntimeConfig": {"DesiredCopyCount": 1, "CurrentCopyCount": copies}}
        report, account = ask(environment, DescribeInferenceComponent=described)
        asked = [parameters.get("InferenceComponentName") for _, parameters in account.calls]
        assert asked == ["ranker-first"] * (1 + copies)
        known = ("compared", 0) if copies else ("not asked", 1)
        assert (report.answers, len(report.notes)) == known


def look_at(
    root: Path, *latencies_ms: float, limit: str = "p99_latency_ms = 100\nwindow_minutes = 2\n"
) -> tuple[list[Difference], dict[str, Any], list[str]]:
    points = [
        {"Timestamp": TIME + timedelta(minutes=at), "ExtendedStatistics": {"p99": ms * 1000}}
        for at, ms in reversed(list(enumerate(latencies_ms)))
    ]
    account = AnsweringAccount(
        DescribeEndpoint=ENDPOINT, GetMetricStatistics={"Datapoints": points}
    )
    report = Report(environment="prod")
    environment = loaded(root, f"{VALID}\n[alarms]\n{limit}").environment
    report.add(alarms.compare_latency(account, environment, report.measured))
    asked = dict(account.calls)["GetMetricStatistics"]
    assert (asked["StartTime"], asked["EndTime"], asked["Period"]) == (
        TIME.replace(second=0), TIME + timedelta(minutes=15), 60
    )  # fmt: skip
    assert asked["Dimensions"] == [
        {"Name": "EndpointName", "Value": "ranker"},
        {"Name": "VariantName", "Value": "primary"},
    ]
    return report.differences, report.measured, report.notes


def test_slow_minutes_count_where_they_last_as_long_as_the_alarm_takes(files: Path) -> None:
    found, measured, notes = look_at(files, 50, 101, 250)
    slower = ("slower since the update", "250.0 in the worst of 3 minutes")
    assert [(each.kind, each.found) for each in found] == [slower]
    assert measured == {"primary": {"p99_latency_ms": 250, "alarm_ms": 100, "minutes": 3}}
    found, _, notes = look_at(files, 101, 50, 101)
    assert (found, len(notes)) == ([], 1)
    assert "above the alarm's 100 ms, but for less than its 2 minutes" in notes[0]
    assert look_at(files, 100, 100)[::2] == ([], [])
    assert look_at(files, 500, 500, limit="")[::2] == ([], [])
    found, measured, notes = look_at(files)
    assert (found, measured) == ([], {})
    assert notes == ["primary: no requests in the first 15 minutes since 2026-11-29 10:00 UTC"]


def bytes_of(content: bytes | None) -> dict[str, Answer]:
    if content is None:
        return {"GetObject": None, "HeadObject": None, "ListObjectsV2": {"KeyCount": 0}}
    get: Answer = lambda asked: {"Body": body(content)}  # noqa: E731
    return {"GetObject": get, "HeadObject": {}, "ListObjectsV2": {"KeyCount": 1}}


def check_archive(
    root: Path, container: Mapping[str, Any], **answers: Answer
) -> tuple[list[Difference], list[str]]:
    report = Report(environment="prod")
    deployed = resource("SageMaker::Model", "m", PrimaryContainer=container)
    report.add(model.compare_archives(stack(AnsweringAccount(**answers), deployed), loaded(root)))
    return report.differences, report.notes


def test_a_pinned_archive_and_a_package_are_read_and_compared_by_their_hash(files: Path) -> None:
    good, variables = bytes_of(b"good"), {model.PINNED: hashlib.sha256(b"good").hexdigest()}
    pinned = {"ModelDataUrl": "s3://b/k.tar.gz", "Environment": variables}
    assert check_archive(files, pinned, **good) == ([], [])
    ((other,), _) = check_archive(files, pinned, **bytes_of(b"evil"))
    assert (other.kind, other.resource) == ("artefact changed", "s3://b/k.tar.gz")
    assert other.found == hashlib.sha256(b"evil").hexdigest()
    ((gone,), _) = check_archive(files, pinned, **bytes_of(None))
    assert gone.kind == "artefact missing"

    def check_package(status: str | None) -> list[tuple[str, object]]:
        containers = {"Containers": [{"ModelDataUrl": "s3://b/k.tar.gz"}]}
        shown = {"ModelApprovalStatus": status, "InferenceSpecification": containers}
        package = {"ModelPackageName": "p", "Environment": variables}
        found, notes = check_archive(
            files, package, DescribeModelPackage=shown if status else None, **good
        )
        assert notes == []
        return [(each.kind, each.found) for each in found]

    assert check_package("Approved") == []
    assert check_package("Rejected") == [("model package", "Rejected")]
    assert [kind for kind, _ in check_package(None)] == ["model package missing"]


def test_an_archive_is_there_and_those_of_a_prefix_are_found_by_name(files: Path) -> None:
    found, (note,) = check_archive(files, {"ModelDataUrl": "s3://b/k.tar.gz"}, **bytes_of(b"x"))
    assert found == []
    assert note.startswith("s3://b/k.tar.gz: exists; its bytes weren't compared")
    assert check_archive(files, {})[0] == []

    found, _ = check_archive(files, {"ModelDataUrl": "s3://b/p/"}, **bytes_of(b"x"))
    changed = ("artefact changed", "s3://b/p/ranker.tar.gz")
    assert [(each.kind, each.resource) for each in found] == [changed]
    source = {"ModelDataSource": {"S3DataSource": {"S3Uri": "s3://b/p/"}}}
    found, _ = check_archive(files, source, **bytes_of(None))
    assert [each.kind for each in found] == ["artefact missing"]
    shutil.rmtree(files / "model")  # the archive can't be packed here
    for content, kinds in ((b"x", []), (None, ["artefact missing"])):
        found, (note,) = check_archive(files, source, **bytes_of(content))
        assert [each.kind for each in found] == kinds
        assert note.startswith("the archive's bytes weren't compared: ")


def test_an_image_whose_patches_ended_is_named_or_accepted_with_a_reason(files: Path) -> None:
    def check(tag: str, environment: Environment) -> tuple[list[str], list[str]]:
        report = Report(environment="prod")
        image = {"Image": f"r/tensorflow-inference:{tag}-cpu"} if tag else {}
        deployed = resource("SageMaker::Model", "m", PrimaryContainer=image)
        report.add(model.check_image_patches(stack(AnsweringAccount(), deployed), environment))
        return [each.kind for each in report.differences], report.notes

    environment = loaded(files).environment
    for tag, kinds in (("2.19", ["ended image"]), ("2.20", []), ("", [])):
        assert check(tag, environment) == (kinds, [])
    accepting = environment.model_copy(update={"acknowledge": {model.IMAGE_RULE: "until May"}})
    kinds, (note,) = check("2.19", accepting)
    assert (kinds, note.endswith("accepted: until May")) == ([], True)


def test_what_keeps_aws_from_patching_is_named() -> None:
    deployed = stack(
        AnsweringAccount(),
        resource("SageMaker::Model", "m", ExecutionRoleArn=SERVING),
        resource("IAM::Role", "serving"),
        resource("IAM::Policy", "policy", Roles=["serving"]),
        resource("IAM::Policy", "else", Roles=["another"]),
    )
    because = "no, because of its"
    for kind, name, begins in (
        ("endpoint configuration missing", "c", f"{because} configuration"),
        ("model missing", "m", f"{because} model"),
        ("artefact changed", "s3://b/k", f"{because} model"),
        ("role permissions", "serving/put", f"{because} execution role"),
        ("policy on role missing", "serving: arn:x/y", f"{because} execution role"),
        ("role permissions", "other", "yes"),
        ("IAM Policy missing", "policy", f"{because} execution role"),
        ("IAM Policy missing", "else", "yes"),
        ("role trust", "serving", f"{because} execution role"),
        ("role trust", "sender", "yes"),
        ("endpoint status", "ranker", f"{because} health"),
        ("alarm missing", "a", "yes"),
    ):
        said = describe_patching(deployed, [Difference(kind, name, "")])
        assert said.startswith(begins)
        assert said.startswith("yes") or f"{kind} ({name})" in said
    gone = Difference("artefact missing", "s3://b/k", "")
    assert describe_patching(deployed, [gone, Difference("role trust", "serving", "")]) == (
        f"{because} model: artefact missing (s3://b/k); execution role: role trust (serving)"
    )
    for wanted, begins in [("0.187", "yes"), (golden.NO_ANSWER, f"{because} health")]:
        other = Difference(golden.KIND, "ranker/primary", "", wanted=wanted, found="-0.087")
        assert describe_patching(deployed, [other]).startswith(begins)
    whole = describe_patching(deployed, [])
    assert (whole.startswith("yes"), "nor is" in whole) == (True, False)
    alone = stack(AnsweringAccount(), *deployed.resources[:1])
    assert describe_patching(alone, []).endswith("; nor is serving, which isn't in this stack")
