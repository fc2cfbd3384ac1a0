"""State machines that run transform jobs, and schedules that start them, in the local AWS."""

import json
import re
import time
import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from tests.servable_local.aws.boto_members import tagged, until
from tests.servable_local.aws.deployed_templates import get, resource
from tests.servable_local.aws.local_account import TRUST, Account, Queue
from tests.servable_local.aws.test_events import Inbox
from tests.servable_local.aws.transform_case import TransformCase
from tests.servable_local.aws.watched_endpoint import Watched

SYNC = "arn:aws:states:::sagemaker:createTransformJob.sync"
SUCCEED = {"Type": "Succeed"}
MIXED = r"States.Format('9% of {} \{\}', $.a)"


class Machine:
    """A state machine of an account, with a model and a bucket."""

    def __init__(self, account: Account) -> None:
        self.case = TransformCase(account)
        self.states = account.client("stepfunctions")
        self.number = account.number

    def job(self, **more: Any) -> dict[str, Any]:
        """A task that runs the model `echo` over in/, as the execution's name."""
        bucket = self.case.bucket
        source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{bucket}/in/"}
        parameters = {
            "TransformJobName.$": "$$.Execution.Name",
            "ModelName": more.pop("model", "echo"),
            "ModelClientConfig": {"InvocationsMaxRetries": 0},
            "TransformInput": {"DataSource": {"S3DataSource": source}},
            "TransformOutput": {"S3OutputPath": f"s3://{bucket}/out"},
            "TransformResources": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
        }
        return {"Type": "Task", "Resource": SYNC, "Parameters": parameters, "End": True} | more

    def create(self, states: dict[str, Any], **more: Any) -> str:
        machine = {"StartAt": next(iter(states)), "States": states} | more
        name, role = f"nightly-{uuid.uuid4()}", f"arn:aws:iam::{self.number}:role/states"
        create = self.states.create_state_machine
        made = create(name=name, definition=json.dumps(machine), roleArn=role)
        return str(made["stateMachineArn"])

    def started(self, machine: str, given: Any = None, name: str = "") -> str:
        text = json.dumps({} if given is None else given)
        name = name or f"run-{uuid.uuid4()}"
        run = self.states.start_execution(stateMachineArn=machine, name=name, input=text)
        return str(run["executionArn"])

    def shown(self, execution: str) -> dict[str, Any]:
        return dict(self.states.describe_execution(executionArn=execution))

    def ended(self, execution: str) -> dict[str, Any]:
        until(lambda: self.shown(execution)["status"] != "RUNNING")
        return self.shown(execution)

    def jobs(self) -> list[Any]:
        return list(self.case.sagemaker.list_transform_jobs()["TransformJobSummaries"])

    def run(self, states: dict[str, Any], given: Any = None, **more: Any) -> dict[str, Any]:
        return self.ended(self.started(self.create(states, **more), given))


@pytest.fixture
def machine(account: Account) -> Machine:
    return Machine(account)


@pytest.mark.long
def test_a_task_waits_for_its_job(machine: Machine) -> None:
    shown = machine.run({"Job": machine.job()})
    assert (shown["status"], shown["error"]) == ("FAILED", "States.TaskFailed")
    assert "No S3 objects found" in json.loads(shown["cause"])["FailureReason"]
    shown = machine.run({"Job": machine.job(model="absent")})
    assert shown["error"] == "SageMaker.ValidationException"

    machine.case.put("in/a", b"1")
    shown = machine.run({"Job": machine.job()})
    assert json.loads(shown["output"])["TransformJobStatus"] == "Completed"
    assert machine.case.results() == {"a.out": b"1"}


def test_a_failure_that_is_caught_reaches_the_topic(machine: Machine) -> None:
    sns, queue = machine.case.account.client("sns"), Queue(machine.case.account)
    topic = sns.create_topic(Name="news")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue.arn)
    message = "States.Format('{} failed: {}', $$.Execution.Name, $.failure.Error)"
    told = {"TopicArn": topic, "Message.$": message}
    caught = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure", "Next": "Tell"}]
    publish = {"Type": "Task", "Resource": "arn:aws:states:::sns:publish", "Parameters": told}
    states = {
        "Job": machine.job(Catch=caught),
        "Tell": publish | {"Next": "Failed"},
        "Failed": {"Type": "Fail", "Error": "BatchFailed", "Cause": "see the topic"},
    }
    assert machine.run(states)["error"] == "BatchFailed"
    (failed,) = queue.receive(1)
    assert re.fullmatch("run-[-0-9a-f]+ failed: States.TaskFailed", failed["Message"])


def test_a_task_is_tried_again_as_often_as_its_retrier_says(machine: Machine) -> None:
    job = machine.job(Retry=[{"ErrorEquals": ["States.TaskFailed"], "MaxAttempts": 2}])
    job["Parameters"]["TransformJobName.$"] = "States.UUID()"
    assert machine.run({"Job": job})["status"] == "FAILED"
    assert len(machine.jobs()) == 3


def test_a_stopped_execution_stops_its_job_and_branches(machine: Machine) -> None:
    machine.case.model("slow", TAKES_SECONDS="1")
    machine.case.put("in/a", b"1")
    run = machine.started(machine.create({"Job": machine.job(model="slow")}), name="job")
    until(machine.jobs)
    machine.states.stop_execution(executionArn=run)
    assert machine.ended(run)["status"] == "ABORTED"
    assert machine.case.rested("job")["TransformJobStatus"] == "Stopped"

    waits = _branch(Type="Wait", Seconds=3600, End=True)
    run = machine.started(machine.create({"Both": _parallel(waits, waits)}))
    machine.states.stop_execution(executionArn=run)
    assert machine.ended(run)["status"] == "ABORTED"


@pytest.mark.long  # it waits
@pytest.mark.parametrize(
    ("more", "of_machine", "status"),
    [({"TimeoutSeconds": 60}, {}, "FAILED"), ({}, {"TimeoutSeconds": 60}, "TIMED_OUT")],
    ids=["task", "machine"],
)
def test_a_job_that_takes_too_long_is_stopped(
    machine: Machine, clock: ManualClock, more: Any, of_machine: Any, status: str
) -> None:
    machine.case.model("slow", TAKES_SECONDS="5")
    machine.case.put("in/a", b"1")
    job = machine.create({"Job": machine.job(model="slow", **more)}, **of_machine)
    run = machine.started(job, name="run")
    until(machine.jobs)
    while machine.shown(run)["status"] == "RUNNING":
        clock.advance(minutes=2)  # its time may begin after the job is seen
        time.sleep(0.1)
    shown = machine.ended(run)
    assert (shown["status"], shown["error"]) == (status, "States.Timeout")
    assert machine.case.rested("run")["TransformJobStatus"] == "Stopped"


def test_a_state_gives_its_output(machine: Machine) -> None:
    outputs: list[tuple[dict[str, Any], Any]] = [
        ({"Type": "Pass", "Result": 7}, 7),
        ({"Type": "Pass", "Parameters": {"b.$": "$.a"}}, {"b": 1}),
        ({"Type": "Pass", "Result": 7, "ResultPath": "$.x.y"}, {"a": 1, "x": {"y": 7}}),
        ({"Type": "Pass", "Result": 7, "ResultPath": None}, {"a": 1}),
        ({"Type": "Pass", "InputPath": "$.a"}, 1),
        ({"Type": "Pass", "OutputPath": "$.a"}, 1),
        ({"Type": "Pass", "ResultSelector": {"c.$": "$.a"}}, {"c": 1}),
        ({"Type": "Pass", "Parameters": {"b.$": MIXED}}, {"b": "9% of 1 {}"}),
        ({"Type": "Succeed"}, {"a": 1}),
    ]
    for state, output in outputs:
        shown = machine.run({"State": state | {"End": True}}, {"a": 1})
        assert json.loads(shown["output"]) == output, state
    few = {"Type": "Pass", "Parameters": {"b.$": "States.Format('{} {}', $.a)"}, "End": True}
    shown = machine.run({"State": few}, {"a": 1})
    assert (shown["status"], shown["error"]) == ("FAILED", "States.IntrinsicFailure")


def test_an_unknown_state_is_invalid(machine: Machine) -> None:
    for state in (
        {"Type": "Choice", "Choices": []},
        {"Type": "Wait", "Timestamp": "2026-01-01T00:00:00Z"},
        {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": True},
        {"Type": "Pass", "QueryLanguage": "JSONata", "End": True},
    ):
        with pytest.raises(ClientError, match="isn't emulated by the local AWS") as raised:
            machine.create({"State": state})
        answer = raised.value.response
        assert answer["Error"]["Code"] == "InvalidDefinition"
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_a_state_that_leads_nowhere_is_refused(machine: Machine) -> None:
    caught = [{"ErrorEquals": ["States.ALL"], "Next": "Other"}]
    inside = {"StartAt": "Inside", "States": {"Inside": {"Type": "Pass", "Next": "Other"}}}
    nowhere = "Other is not a state of the state machine"
    for state, problem in [
        ({"Type": "Pass", "Next": "Other"}, nowhere),
        (_parallel(Catch=caught), nowhere),
        (_parallel(inside), nowhere),
        ({"Type": "Pass"}, "the state State needs either Next or End"),
    ]:
        with pytest.raises(ClientError, match=problem):
            machine.create({"State": state})


def test_a_wait_takes_its_seconds_of_the_clock(machine: Machine, clock: ManualClock) -> None:
    run = machine.started(machine.create({"State": {"Type": "Wait", "Seconds": 60, "End": True}}))
    clock.advance(seconds=50)
    time.sleep(0.1)
    assert machine.shown(run)["status"] == "RUNNING"
    while machine.shown(run)["status"] == "RUNNING":
        clock.advance(seconds=60)  # its time may begin after the first advance
        time.sleep(0.1)
    assert machine.ended(run)["status"] == "SUCCEEDED"


def _branch(**state: Any) -> dict[str, Any]:
    return {"StartAt": "State", "States": {"State": state}}


def _parallel(*branches: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Type": "Parallel", "Branches": branches, "End": True} | more


def test_branches_run_together_and_end_together(machine: Machine) -> None:
    branches = [_branch(Type="Pass", Result=result, End=True) for result in (1, 2)]
    assert json.loads(machine.run({"Both": _parallel(*branches)})["output"]) == [1, 2]

    waits = _branch(Type="Wait", Seconds=3600, End=True)
    fails = _branch(Type="Fail", Error="Ended", Cause="here")
    caught = [{"ErrorEquals": ["Ended"], "ResultPath": "$.why", "Next": "Done"}]
    states = {"Both": _parallel(waits, fails, Catch=caught), "Done": SUCCEED}
    shown = machine.run(states, {"a": 1})
    assert json.loads(shown["output"]) == {"a": 1, "why": {"Error": "Ended", "Cause": "here"}}


def _total(machine: Machine, metric: str, **dimension: Any) -> float:
    """The metric's sum. `dimension`: its name and value."""
    found = machine.case.account.datapoints(metric, "Sum", **dimension)
    return float(sum(point["Sum"] for point in found))


def test_an_execution_has_the_clock_s_time_and_counts(machine: Machine, clock: ManualClock) -> None:
    arn = machine.create({"Failed": {"Type": "Fail"}})
    machine.ended(machine.started(arn))
    assert _total(machine, "AWS/States:ExecutionsFailed", StateMachineArn=arn) == 1
    begun = {"Type": "Pass", "Parameters": {"at.$": "$$.Execution.StartTime"}, "End": True}
    shown = machine.run({"State": begun})
    at = datetime.fromisoformat(json.loads(shown["output"])["at"].rstrip("Z"))
    assert at == clock.now().replace(microsecond=at.microsecond)


def test_an_execution_tells_event_bridge_its_states(watched: Watched) -> None:
    machine, inbox = Machine(watched.account), Inbox(watched, "aws.states")
    machine.run({"Done": SUCCEED})
    assert [event["detail"]["status"] for event in inbox.events(2)] == ["RUNNING", "SUCCEEDED"]


def _schedule(machine: Machine, expression: str, target: dict[str, Any], **more: Any) -> None:
    schedule = {
        "Name": "nightly",
        "ScheduleExpression": expression,
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"RoleArn": f"arn:aws:iam::{machine.number}:role/scheduler"} | target,
    }
    machine.case.account.client("scheduler").create_schedule(**schedule | more)


def test_a_schedule_starts_its_target_when_it_is_due(machine: Machine, clock: ManualClock) -> None:
    arn, disabled = (machine.create({"Done": SUCCEED}) for _ in range(2))
    at = (clock.now() + timedelta(minutes=3)).replace(second=0, microsecond=0)
    given = json.dumps({"at": "<aws.scheduler.scheduled-time>"})
    _schedule(machine, f"cron({at.minute} {at.hour} * * ? *)", {"Arn": arn, "Input": given})
    _schedule(machine, "cron(* * * * ? *)", {"Arn": disabled}, Name="off", State="DISABLED")
    clock.advance(minutes=1)
    assert machine.states.list_executions(stateMachineArn=arn)["executions"] == []
    clock.advance(minutes=2)
    (run,) = machine.states.list_executions(stateMachineArn=arn)["executions"]
    shown = machine.ended(run["executionArn"])
    assert json.loads(shown["input"]) == {"at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    assert machine.states.list_executions(stateMachineArn=disabled)["executions"] == []

    machine.case.put("in/a", b"1")
    job = machine.job()["Parameters"]
    del job["TransformJobName.$"]
    job["TransformJobName"] = "<aws.scheduler.execution-id>"
    universal = "arn:aws:scheduler:::aws-sdk:sagemaker:createTransformJob"
    target = {"Arn": universal, "Input": json.dumps(job)}
    _schedule(machine, "cron(* * * * ? *)", target, Name="jobs")
    clock.advance(minutes=2)
    assert len(machine.jobs()) == 2


def test_starts_and_those_that_failed_count_in_the_metrics_of_the_schedule_s_group(
    machine: Machine, clock: ManualClock
) -> None:
    arn = machine.create({"Done": SUCCEED})
    machine.case.account.client("scheduler").create_schedule_group(Name="batches")
    _schedule(machine, "cron(* * * * ? *)", {"Arn": arn})
    _schedule(machine, "cron(* * * * ? *)", {"Arn": f"{arn}-absent"}, GroupName="batches")
    clock.advance(minutes=2)
    for metric, of_one, of_none in [
        ("InvocationAttemptCount", 2, 2),
        ("TargetErrorCount", 0, 2),
        ("InvocationDroppedCount", 0, 2),
    ]:
        name, groups = f"AWS/Scheduler:{metric}", ("default", "batches")
        counts = [_total(machine, name, ScheduleGroup=group) for group in groups]
        assert counts == [of_one, of_none], metric


def test_a_schedule_that_would_not_fire_is_refused(machine: Machine) -> None:
    for expression, arn, problem in [
        ("cron(61 * * * ? *)", "arn:aws:states:us-east-1:1:stateMachine:a", "Invalid Schedule"),
        ("cron(* * * * ? *)", "arn:aws:lambda:us-east-1:1:function:a", "do not fire here"),
    ]:
        with pytest.raises(ClientError, match=problem):
            _schedule(machine, expression, {"Arn": arn})


def template(definition: dict[str, Any], expression: str, **tags: str) -> dict[str, Any]:
    arn, owned = get("Role", "Arn"), {"Tags": tagged(**tags)}
    machine = {"RoleArn": arn, "DefinitionString": json.dumps(definition), **owned}
    schedule = {
        "GroupName": {"Ref": "Group"},
        "ScheduleExpression": expression,
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": {"Ref": "Machine"}, "RoleArn": arn},
    }
    resources = {
        "Role": resource("IAM::Role", AssumeRolePolicyDocument=json.loads(TRUST)),
        "Machine": resource("StepFunctions::StateMachine", **machine),
        "Group": resource("Scheduler::ScheduleGroup", **owned),
        "Schedule": resource("Scheduler::Schedule", **schedule),
    }
    return {"Resources": resources}


@pytest.mark.long
def test_a_stack_makes_changes_and_removes_both(account: Account) -> None:
    states, schedules = account.client("stepfunctions"), account.client("scheduler")
    first = {"StartAt": "Done", "States": {"Done": SUCCEED}}
    second = {"StartAt": "Other", "States": {"Other": SUCCEED}}
    assert account.deploy(template(first, "rate(1 day)", team="a")) == "CREATE_COMPLETE"
    assert account.deploy(template(second, "rate(2 days)", owner="b")) == "UPDATE_COMPLETE"
    (machine,) = states.list_state_machines()["stateMachines"]
    arn = machine["stateMachineArn"]
    shown = states.describe_state_machine(stateMachineArn=arn)
    assert json.loads(shown["definition"]) == second
    tags = states.list_tags_for_resource(resourceArn=arn)["tags"]
    assert tags == [{"key": "owner", "value": "b"}]
    (schedule,) = schedules.list_schedules()["Schedules"]
    kept = schedules.get_schedule(Name=schedule["Name"], GroupName=schedule["GroupName"])
    assert kept["ScheduleExpression"] == "rate(2 days)"
    account.delete()
    assert account.inventory() == []
