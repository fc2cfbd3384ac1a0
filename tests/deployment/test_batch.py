"""A batch, deployed with the real CDK CLI: scheduled, by hand, late, failed, not started, and what is left.

One deployment for the file, with the clock standing still.
"""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import LocalAws
from servable_local.aws.local_aws import ACCOUNT, REGION
from tests.checkouts import ROOT
from tests.deployment.conftest import bootstrapped_copy

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MODEL = f"""\
account = "{ACCOUNT}"
region = "{REGION}"
[models.rows]
saved_model = "examples/ranker/model"
handler = "servable"
tensorflow = "2.20"
"""
ENVIRONMENT = f"""\
extends = "base"
endpoint.name = "scored"
{MODEL}
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
{MODEL}
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


def test_batches_are_run_told_verified_and_deleted(tmp_path: Path) -> None:
    with bootstrapped_copy(tmp_path, seconds_per_minute=None) as made:
        aws, environments = made.aws, made.project / "environments"
        at = aws.now() + timedelta(minutes=30)
        again = at + timedelta(minutes=15)
        expression = f"cron({at.minute},{again.minute} * * * ? *)"
        (environments / "night.toml").write_text(ENVIRONMENT.replace("SCHEDULE", expression))
        (environments / "alone.toml").write_text(ALONE)
        made.deploy("night/*", "alone/*")
        deployed = DeployedNames(aws)
        run_by_schedule_and_by_hand(deployed)
        trial = made.servable("batch", "night", "nightly", "--limit=3", "--json")
        said = json.loads(trial.stdout)
        assert (said["rows_in"], said["rows_out"], said["holds"]) == (3, 3, True), trial.stderr
        verified = made.servable("verify", "night", "--no-invoke")
        assert verified.returncode == 0, verified.stdout + verified.stderr

        # Batches alone have no endpoint.
        (live,) = aws.client("sagemaker").list_endpoints()["Endpoints"]
        assert live["EndpointName"] == "scored"
        for command, says in {
            "verify alone": "alone  as deployed, answers not asked",
            "plan alone": "alone, against what is live: nothing changes",
            "history alone --restore 1": "[batch.weekly]",
            "batch alone --limit=3 --json": '"rows_out": 3',
        }.items():
            ran = made.servable(*command.split())
            assert (ran.returncode, says in ran.stdout) == (0, True), ran.stdout + ran.stderr

        machine = deployed.outputs["BatchNightlyStateMachine"]
        deployed.states.delete_state_machine(stateMachineArn=machine)
        aws.advance(minutes=12)
        unstarted = deployed.received("scored-nightly-batch-unstarted", '"ALARM"')
        assert "First: start it by hand" in unstarted
        made.cdk("destroy", "night/*", "alone/*", "--force")
        left = {name for kind, name in made.made() if "Subscription" not in kind}
        assert left == SHARED


def run_by_schedule_and_by_hand(deployed: DeployedNames) -> None:
    """Every row of every file is scored beside its id; late and failed runs are told."""
    lines = [{"id": n, "SageMakerOutput": pytest.approx(score)} for n, score in enumerate(SCORES)]
    expected = {f"scores/{file}.jsonl.out": lines for file in ("a", "b")}
    deployed.aws.advance(minutes=31)
    deployed.runs("BatchNightly", 1)
    assert deployed.taken_scores() == expected
    deployed.start("BatchNightly")
    deployed.running()
    deployed.aws.advance(minutes=3)
    late = deployed.received("The batch scored-nightly is late")
    assert "is still running 2 minutes after the run began" in late
    # The model does not take its rows.
    deployed.start("BatchByHand")
    deployed.runs("BatchNightly", 2)
    assert deployed.runs("BatchByHand", 1) == ["FAILED"]
    deployed.aws.advance(minutes=2)
    assert "ClientError: See job logs" in deployed.received("The batch scored-by-hand failed")
    alarm = deployed.received("scored-by-hand-batch-failed", '"ALARM"')
    assert "First: read the other message" in alarm
    assert deployed.taken_scores() == expected
