"""A batch, deployed with the real CDK CLI: scheduled, by hand, late, failed, not started, and what is left.

One deployment for the file, with the clock standing still.
"""

import json
import os
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import LocalAws, running
from servable_local.aws.local_aws import ACCOUNT, REGION
from tests.checkouts import PATH, ROOT, Ran, bootstrapped, checkout, run_in
from tests.servable_local.aws.inventory import inventory

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

ENVIRONMENT = f"""\
extends = "base"
account = "{ACCOUNT}"
region = "{REGION}"
[endpoint]
name = "scored"
[models.rows]
saved_model = "examples/ranker/model"
handler = "servable"
tensorflow = "2.20"
[batch.nightly]
model = "rows"
instance_type = "ml.c5.xlarge"
input = "s3://tables/rows/"
output = "s3://tables/scores/"
content_type = "application/jsonlines"
input_filter = "$['feat_ids','feat_vals']"
join = true
output_filter = "$['id','SageMakerOutput']"
schedule = "SCHEDULE"
late_minutes = 2
[batch.by-hand]
model = "rows"
instance_type = "ml.c5.xlarge"
input = "s3://tables/wrong/"
output = "s3://tables/never/"
content_type = "application/jsonlines"
late_minutes = 1
"""
ALONE = f"""\
account = "{ACCOUNT}"
region = "{REGION}"
[models.rows]
saved_model = "examples/ranker/model"
handler = "servable"
tensorflow = "2.20"
[batch.weekly]
model = "rows"
instance_type = "ml.c5.xlarge"
input = "s3://tables/rows/"
output = "s3://tables/weekly/"
content_type = "application/jsonlines"
input_filter = "$['feat_ids','feat_vals']"
schedule = "rate(7 days)"
[alarms]
notify = ["a@example.com"]
"""
GOLDEN = ROOT / "examples" / "ranker" / "golden"
ROWS = json.loads((GOLDEN / "request-rows.json").read_text())["instances"]
SCORES = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
SHARED = {"tables", "/aws/sagemaker/TransformJobs"}


class DeployedNames:
    """The environment `night`, deployed to a local AWS, with the bucket `tables`."""

    def __init__(self, aws: LocalAws) -> None:
        self.aws = aws
        self.s3, self.states = aws.client("s3"), aws.client("stepfunctions")
        self.s3.create_bucket(Bucket="tables")
        rows = [json.dumps({"id": number, **row}) for number, row in enumerate(ROWS)]
        for file in ("a", "b"):
            body = "\n".join(rows) + "\n"
            self.s3.put_object(Bucket="tables", Key=f"rows/{file}.jsonl", Body=body)
        self.s3.put_object(Bucket="tables", Key="wrong/a.jsonl", Body=rows[0])  # the id is no input
        cloudformation = aws.client("cloudformation")
        (stack,) = cloudformation.describe_stacks(StackName="ranker-night-endpoint")["Stacks"]
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
        self._sqs = aws.client("sqs")
        self._queue = self._sqs.create_queue(QueueName="inbox")["QueueUrl"]
        asked = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])
        aws.client("sns").subscribe(
            TopicArn=self.outputs["AlarmTopicArn"],
            Protocol="sqs",
            Endpoint=asked["Attributes"]["QueueArn"],
        )
        self._messages: list[str] = []

    def runs(self, batch: str, count: int) -> list[str]:
        """How so many runs of a batch ended."""
        machine, deadline = self.outputs[f"{batch}StateMachine"], time.monotonic() + 60
        while True:
            found = self.states.list_executions(stateMachineArn=machine)["executions"]
            statuses = [one["status"] for one in found]
            if len(statuses) == count and "RUNNING" not in statuses:
                return statuses
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def start(self, batch: str) -> None:
        self.states.start_execution(stateMachineArn=self.outputs[f"{batch}StateMachine"])

    def running(self) -> None:
        """Returns when a job runs."""
        sagemaker, deadline = self.aws.client("sagemaker"), time.monotonic() + 60
        while not sagemaker.list_transform_jobs(StatusEquals="InProgress")["TransformJobSummaries"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def taken_scores(self) -> dict[str, list[dict[str, Any]]]:
        """Key of each result to its lines; they are deleted."""
        found = {}
        for item in self.s3.list_objects_v2(Bucket="tables", Prefix="scores/").get("Contents", []):
            body = self.s3.get_object(Bucket="tables", Key=item["Key"])["Body"].read()
            found[item["Key"]] = [json.loads(line) for line in body.splitlines()]
            self.s3.delete_object(Bucket="tables", Key=item["Key"])
        return found

    def received(self, *texts: str) -> str:
        """The first message of the topic with these texts."""
        deadline = time.monotonic() + 20
        while True:
            got = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10)
            bodies = [json.loads(one["Body"]) for one in got.get("Messages", [])]
            self._messages += [body["Message"] for body in bodies]
            for message in self._messages:
                if all(text in message for text in texts):
                    return message
            assert time.monotonic() < deadline, self._messages
            time.sleep(0.1)


@dataclass(frozen=True)
class Night:
    """What was seen, in this order."""

    scheduled: dict[str, list[dict[str, Any]]]
    by_hand: dict[str, list[dict[str, Any]]]
    late: str
    trial: Ran
    failed: list[str]
    reason: str
    alarm: str
    verified: Ran
    unstarted: str
    endpoints: list[str]
    alone: dict[str, Ran]
    """Command to what it did for the environment without an endpoint."""
    left: set[str]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    project = checkout(tmp_path_factory.mktemp("batch") / "project")
    with running(seconds_per_minute=None) as aws:
        at = aws.now() + timedelta(minutes=30)
        again = at + timedelta(minutes=15)
        expression = f"cron({at.minute},{again.minute} * * * ? *)"
        environment = ENVIRONMENT.replace("SCHEDULE", expression)
        (project / "environments" / "night.toml").write_text(environment)
        (project / "environments" / "alone.toml").write_text(ALONE)
        bootstrapped(aws)
        before = set(inventory(aws))
        cdk(project, aws, "deploy", "night/*", "alone/*", "--require-approval", "never")
        deployed = DeployedNames(aws)
        aws.advance(minutes=31)
        deployed.runs("BatchNightly", 1)
        scheduled = deployed.taken_scores()
        deployed.start("BatchNightly")
        deployed.running()
        aws.advance(minutes=3)
        late = deployed.received("The batch scored-nightly is late")
        deployed.start("BatchByHand")
        deployed.runs("BatchNightly", 2)
        failed = deployed.runs("BatchByHand", 1)
        aws.advance(minutes=2)
        reason = deployed.received("The batch scored-by-hand failed")
        alarm = deployed.received("scored-by-hand-batch-failed", '"ALARM"')
        by_hand = deployed.taken_scores()
        trial = servable(project, aws, "batch", "night", "nightly", "--limit=3", "--json")
        verified = servable(project, aws, "verify", "night", "--no-invoke")
        live = aws.client("sagemaker").list_endpoints()["Endpoints"]
        alone = {
            command: servable(project, aws, *command.split())
            for command in (
                "verify alone",
                "plan alone",
                "history alone --restore 1",
                "batch alone --limit=3 --json",
            )
        }
        machine = deployed.outputs["BatchNightlyStateMachine"]
        deployed.states.delete_state_machine(stateMachineArn=machine)
        aws.advance(minutes=12)
        unstarted = deployed.received("scored-nightly-batch-unstarted", '"ALARM"')
        cdk(project, aws, "destroy", "night/*", "alone/*", "--force")
        left = {name for kind, name in set(inventory(aws)) - before if "Subscription" not in kind}
    endpoints = [one["EndpointName"] for one in live]
    return Night(
        scheduled, by_hand, late, trial, failed, reason, alarm, verified, unstarted, endpoints, alone, left
    )  # fmt: skip


def servable(project: Path, aws: LocalAws, *arguments: str) -> Ran:
    environment = aws.environment_over({**os.environ, "PYTHONPATH": str(project)})
    return run_in(project, sys.executable, "-m", "servable", *arguments, environment=environment)


def cdk(project: Path, aws: LocalAws, *arguments: str) -> None:
    environment = aws.environment_over({**os.environ, "PATH": PATH})
    ran = run_in(project, "cdk", *arguments, environment=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_scheduled_run_scores_every_row_of_every_file_beside_its_id(night: Night) -> None:
    lines = [{"id": n, "SageMakerOutput": pytest.approx(score)} for n, score in enumerate(SCORES)]
    assert night.scheduled == {f"scores/{file}.jsonl.out": lines for file in ("a", "b")}


def test_a_run_by_hand_gives_the_same(night: Night) -> None:
    assert night.by_hand == night.scheduled


def test_a_trial_scores_as_many_rows_as_are_asked_for(night: Night) -> None:
    said = json.loads(night.trial.stdout)
    assert (said["rows_in"], said["rows_out"], said["holds"]) == (3, 3, True), night.trial.stderr


def test_a_run_that_is_late_is_told_while_it_runs(night: Night) -> None:
    assert "is still running 2 minutes after the run began" in night.late


def test_a_schedule_that_cannot_start_its_run_is_an_alarm(night: Night) -> None:
    assert "First: start it by hand" in night.unstarted


def test_rows_that_the_model_does_not_take_fail_the_run(night: Night) -> None:
    assert night.failed == ["FAILED"]


def test_a_failed_run_sends_its_reason(night: Night) -> None:
    assert "ClientError: See job logs" in night.reason


def test_a_failed_run_is_an_alarm_that_says_what_to_do_first(night: Night) -> None:
    assert "First: read the other message" in night.alarm


def test_verify_finds_what_is_deployed(night: Night) -> None:
    assert night.verified.returncode == 0, night.verified.stdout + night.verified.stderr


def test_an_environment_of_batches_alone_has_no_endpoint(night: Night) -> None:
    assert night.endpoints == ["scored"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("verify alone", "alone  as deployed, answers not asked"),
        ("plan alone", "alone, against what is live: nothing changes"),
        ("history alone --restore 1", "[batch.weekly]"),
        ("batch alone --limit=3 --json", '"rows_out": 3'),
    ],
)
def test_it_is_verified_planned_restored_and_run_as_others_are(
    night: Night, command: str, says: str
) -> None:
    ran = night.alone[command]
    assert (ran.returncode, says in ran.stdout) == (0, True), ran.stdout + ran.stderr


def test_what_is_destroyed_leaves_the_tables_and_the_log_that_all_jobs_share(night: Night) -> None:
    assert night.left == SHARED
