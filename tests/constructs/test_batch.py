"""A batch's state machine, roles, schedule and alarms in the template."""

import json
import re
from typing import Any, Literal

import pytest
from aws_cdk import aws_sns as sns

from infra.parameters.batch.job import find_batch_job
from servable.constructs import BatchSettings, BatchTransform, Model
from tests.batches import build_batch_example
from tests.conftest import RANKER, VALID, Environment, valid
from tests.constructs.conftest import Synthesise, Synthesised, flat, own_stack

NIGHTLY = build_batch_example(
    schedule="cron(0 2 * * ? *)", timezone="Europe/Berlin", late_minutes=90, max_minutes=120
)
TEXT = f"{NIGHTLY}\n{VALID}"


def definition(found: Synthesised) -> dict[str, Any]:
    text = found.one("AWS::StepFunctions::StateMachine")["DefinitionString"]
    return dict(json.loads(flat(text)))


def job_of(found: Synthesised) -> dict[str, Any]:
    """The state that runs the transform job."""
    return dict(branches(found)[0]["Transform"])


def branches(found: Synthesised) -> list[dict[str, Any]]:
    """The states of the branch that runs the job, and of the one that tells that it is late."""
    return [branch["States"] for branch in definition(found)["States"]["Run"]["Branches"]]


def test_the_job_is_started_with_the_request_of_the_command_and_waited_for(
    synthesise: Synthesise, environment: Environment
) -> None:
    started = job_of(synthesise(TEXT))["Parameters"]
    name = started.pop("TransformJobName.$")
    job = find_batch_job(valid(environment(TEXT)).environment, "nightly")
    assert job is not None
    wanted = job.build_request(job_name="", model_name=started["ModelName"])
    del wanted["TransformJobName"]
    assert (started, name) == (wanted, "States.Format('ranker-nightly-{}', $.run)")

    job = job_of(synthesise(TEXT))
    assert job["TimeoutSeconds"] == 120 * 60
    assert job["Resource"].endswith(":states:::sagemaker:createTransformJob.sync")


def test_a_run_that_fails_completes_or_is_late_ends_or_is_told_so(synthesise: Synthesise) -> None:
    found = synthesise(TEXT)
    states = definition(found)["States"]
    assert states["Run"]["Catch"][-1]["ErrorEquals"] == ["States.ALL"]
    assert (states["Tell"]["Next"], states["Tell"]["Catch"][0]["Next"]) == ("Failed", "Failed")

    ended = branches(found)[0][job_of(found)["Next"]]
    (caught,) = [c for c in states["Run"]["Catch"] if c["ErrorEquals"] == [ended["Error"]]]
    assert (ended["Type"], states[caught["Next"]]["Type"]) == ("Fail", "Succeed")

    late = branches(found)[1]
    assert late["Wait"]["Seconds"] == 90 * 60
    message = late[late["Wait"]["Next"]]["Parameters"]["Message.$"]
    assert "is late: its job ranker-nightly-{} is still running 90 minutes after" in message

    assert late[late["TellLate"]["Catch"][0]["Next"]]["Type"] == "Succeed"

    alarms = {one["AlarmName"]: one for one in found.all("AWS::CloudWatch::Alarm")}
    prefix = "ranker-nightly-"
    of_batch = {name[15:]: one for name, one in alarms.items() if name.startswith(prefix)}
    most = {kind: one["Threshold"] for kind, one in of_batch.items()}
    assert most == {"batch-failed": 0, "batch-late": 90 * 60_000, "batch-unstarted": 0}
    metrics = [one.get("MetricStat", {}) for one in of_batch["batch-unstarted"]["Metrics"]]
    starts = [one["Metric"]["MetricName"] for one in metrics if one]
    assert starts == ["TargetErrorCount", "InvocationDroppedCount"]


@pytest.mark.long
def test_a_batch_has_its_own_model_and_numbered_jobs(synthesise: Synthesise) -> None:
    text = TEXT.replace("nightly", "n" * 57)
    prefix = job_of(synthesise(text))["Parameters"]["TransformJobName.$"]
    assert len(prefix.split("'")[1].replace("{}", "u" * 36)) == 63

    models = synthesise(TEXT).all("AWS::SageMaker::Model")
    waits = [
        model["PrimaryContainer"]["Environment"].get("SAGEMAKER_TFS_WAIT_TIME_SECONDS")
        for model in models
    ]
    assert sorted(map(str, waits)) == ["630", "None"]


@pytest.mark.long
def test_the_schedule_is_the_file_s_and_has_a_role(synthesise: Synthesise) -> None:
    schedule = synthesise(TEXT).one("AWS::Scheduler::Schedule")
    expression = schedule["ScheduleExpression"], schedule["ScheduleExpressionTimezone"]
    assert expression == ("cron(0 2 * * ? *)", "Europe/Berlin")

    found = synthesise(f"{build_batch_example()}\n{VALID}")
    assert found.all("AWS::Scheduler::Schedule") == []
    assert [name for name in found.ids("AWS::IAM::Role") if "Schedule" in name] == []


def test_batches_alone_have_no_endpoint_and_nothing_of_one(synthesise: Synthesise) -> None:
    text = f"{NIGHTLY}\nalarms.notify = ['a@example.com']\n{VALID[: VALID.index('[variants')]}"
    kinds = {one["Type"] for one in synthesise(text).template["Resources"].values()}
    assert not {kind for kind in kinds if "Endpoint" in kind or "Scaling" in kind}
    assert "AWS::CloudWatch::CompositeAlarm" not in kinds
    assert {"AWS::SNS::Topic", "AWS::CloudWatch::Dashboard", "AWS::SSM::Parameter"} <= kinds


def own_batch(handler: Literal["servable"] | None = None, **keys: Any) -> Synthesised:
    given = {
        "model": "ranker", "instance_type": "ml.c5.xlarge", "input": "s3://tables/rows/",
        "output": "s3://tables/scores/", "content_type": "text/csv",
    }  # fmt: skip
    stack, settings = own_stack("Own", env=None), BatchSettings(**given | keys)
    model = Model.from_saved_model(stack, "Model", RANKER, model_name="ranker", handler=handler)
    topic = sns.Topic(stack, "News")
    BatchTransform(
        stack, "Nightly", name="own-nightly", model=model, settings=settings, inform=topic
    )
    return Synthesised.of(stack)


def test_an_app_of_one_s_own_makes_one_from_a_model_for_a_batch() -> None:
    jsonlines = {"content_type": "application/jsonlines"}
    found = own_batch("servable", **jsonlines)
    job = job_of(found)["Parameters"]
    assert job["TransformInput"]["DataSource"]["S3DataSource"]["S3Uri"] == "s3://tables/rows/"
    (model,) = found.ids("AWS::SageMaker::Model")
    # The ID of a resource below the model, as earlier versions deployed it.
    assert re.fullmatch("Model[0-9A-F]{8}", model)
    for wrong, problem in (
        ({"model": "other"}, "model is 'other', but the model's name is 'ranker'"),
        ({"instance_type": "ml.c5.xlrge"}, "instance_type: 'ml.c5.xlrge' isn't an instance type"),
    ):
        with pytest.raises(ValueError, match=f"settings: {problem}"):
            own_batch("servable", **jsonlines | wrong)
