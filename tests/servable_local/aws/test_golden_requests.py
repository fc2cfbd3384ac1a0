"""An endpoint that nobody calls, updated to a version that fails: golden requests, or nobody notices."""

import base64
import contextlib
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from infra.constructs.rollout.golden_sender import CODE
from infra.functions import golden_sender
from infra.functions.golden_sender import UnsentError, send
from infra.parameters.loading import load
from servable.plan.synthesis import synthesise_endpoint
from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.synthesised import DeployedNames
from tests.servable_local.aws.test_guarded_update import Update

pytestmark = pytest.mark.long

OTHER = {"variants.primary.container.tfs_processes": "2"}
FOLDER = ROOT / "examples" / "updates"


def canary(overrides: dict[str, str]) -> dict[str, Any]:
    given = {"canary": {"rollout.golden_requests.per_minute": "4", **overrides}}
    (one,) = [loaded for loaded in load(ROOT, FOLDER, given) if loaded.name == "canary"]
    return synthesise_endpoint(valid(one))


@pytest.fixture(scope="module")
def templates() -> list[dict[str, Any]]:
    return [canary({}), canary(OTHER)]


@pytest.fixture(scope="module")
def quiet(templates: list[dict[str, Any]], embedded: LocalAws, launcher: Launcher) -> DeployedNames:
    return DeployedNames(embedded, launcher, templates[0])


class Scheduled:
    """What EventBridge would do: the function with the rule's input, once a minute.

    What it prints reaches the metrics, as CloudWatch reads it from Lambda's log.
    """

    def __init__(self, deployed: DeployedNames, clock: ManualClock | None = None) -> None:
        self.client = deployed.account.client
        self._clock = clock
        (rule,) = [
            one
            for one in self.client("events").list_rules()["Rules"]
            if "ScheduleExpression" in one
        ]
        self.every = rule["ScheduleExpression"]
        (target,) = self.client("events").list_targets_by_rule(Rule=rule["Name"])["Targets"]
        self.event = json.loads(target["Input"])
        self.waited: list[float] = []

    def run(self) -> dict[str, int]:
        sagemaker, runtime = self.client("sagemaker"), self.client("sagemaker-runtime")
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                return send(self.event, sagemaker, runtime, self.waited.append)
        finally:
            for line in printed.getvalue().splitlines():
                self._publish(json.loads(line))

    def _publish(self, line: dict[str, Any]) -> None:
        """Source: CloudWatch_Embedded_Metric_Format_Specification.html of CloudWatch's guide (2026-11-23)."""
        assert self._clock is not None
        (published,) = line["_aws"]["CloudWatchMetrics"]
        ((*names,),) = published["Dimensions"]
        (metric,) = published["Metrics"]
        self.client("cloudwatch").put_metric_data(
            Namespace=published["Namespace"],
            MetricData=[
                {
                    "MetricName": metric["Name"],
                    "Dimensions": [{"Name": name, "Value": line[name]} for name in names],
                    "Value": line[metric["Name"]],
                    "Timestamp": self._clock.now(),
                }
            ],
        )


Reported = Callable[["Refusing"], list[int]]
Failing = Callable[[bool, int], str]


@pytest.fixture
def failing(
    templates: list[dict[str, Any]], embedded: LocalAws, launcher: Launcher, clock: ManualClock
) -> Failing:
    """What becomes of an update whose new version fails so, with golden requests or without."""

    def run(golden: bool, status: int) -> str:
        deployed = DeployedNames(embedded, launcher, templates[0])
        clock.advance(seconds=60 - clock.now().second)
        update, sender = Update(deployed, templates[1]), Scheduled(deployed, clock)
        update.new.status = status
        for _ in range(15):
            if golden:
                sender.run()
            clock.advance(minutes=1)
        return f"{update.status()}: {update.endpoint().get('FailureReason', '')}"

    return run


@pytest.mark.parametrize("status", [400, 503])
def test_with_golden_requests_it_is_taken_back(failing: Failing, status: int) -> None:
    ended = failing(True, status)
    assert ended.startswith("UPDATE_ROLLBACK_COMPLETE: ")
    assert "updates-canary-rollback-golden-requests-" in ended


def test_golden_requests_that_are_answered_end_no_update(failing: Failing) -> None:
    assert failing(True, 200) == "UPDATE_COMPLETE: "


def test_without_them_nobody_notices(failing: Failing) -> None:
    assert failing(False, 503) == "UPDATE_COMPLETE: "


def test_the_files_request_is_sent_every_minute_of_an_update(quiet: DeployedNames) -> None:
    assert Scheduled(quiet).every == "rate(1 minute)"
    assert Scheduled(quiet).run() == {"sent": 0, "failed": 0}

    sender = Scheduled(quiet)
    sender.event["endpoint"] = "not-yet"
    assert sender.run() == {"sent": 0, "failed": 0}
    body = (ROOT / "examples" / "ranker" / "golden" / "request-rows.json").read_bytes()
    assert base64.b64decode(Scheduled(quiet).event["body"]) == body


def test_the_deployed_code_is_one_file_that_lambda_takes_from_a_template(
    quiet: DeployedNames,
) -> None:
    functions = quiet.account.client("lambda")
    (made,) = functions.list_functions()["Functions"]
    code = CODE.read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", code)
    assert (made["Handler"], made["CodeSize"], len(code) <= 4096) == (
        "index.handler",
        len(packed.getvalue()),
        True,
    )


def test_the_template_has_the_alarm_and_permission(templates: list[dict[str, Any]]) -> None:
    (policy,) = [
        resource["Properties"]["PolicyDocument"]["Statement"]
        for name, resource in templates[0]["Resources"].items()
        if resource["Type"] == "AWS::IAM::Policy" and name.startswith("GoldenRequests")
    ]
    assert policy[0] == {
        "Action": ["sagemaker:DescribeEndpoint", "sagemaker:InvokeEndpoint"],
        "Effect": "Allow",
        "Resource": "arn:aws:sagemaker:eu-west-1:333333333333:endpoint/updates-canary",
    }

    (alarm,) = [
        resource["Properties"]
        for resource in templates[0]["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
        and resource["Properties"]["AlarmName"] == "updates-canary-golden-requests"
    ]
    (function,) = [
        name
        for name, one in templates[0]["Resources"].items()
        if one["Type"] == "AWS::Lambda::Function"
    ]
    (action,) = alarm["AlarmActions"]
    assert (alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"], alarm["Threshold"]) == (
        "AWS/Lambda",
        "Errors",
        [{"Name": "FunctionName", "Value": {"Ref": function}}],
        0,
    )
    assert action["Ref"].startswith("AlarmTopic")


class Refusing:
    """A client of SageMaker and of its runtime: the endpoint is being updated, and calls fail so."""

    def __init__(
        self, error: Exception, *, of: str = "invoke_endpoint", stages: Sequence[str] = ("Baking",)
    ) -> None:
        self._error, self._of = error, of
        self._stages = iter(stages)
        self._stage = ""

    def describe_endpoint(self, **_: Any) -> dict[str, Any]:
        if self._of == "describe_endpoint":
            raise self._error
        self._stage = next(self._stages, self._stage)
        variant = {"VariantStatus": [{"Status": self._stage}]}
        pending = {"EndpointConfigName": "new", "ProductionVariants": [variant]}
        return {"EndpointStatus": "Updating", "PendingDeploymentSummary": pending}

    def invoke_endpoint(self, **_: Any) -> dict[str, Any]:
        raise self._error


def refused(code: str, **more: Any) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}, **more}, "InvokeEndpoint")


@pytest.fixture
def reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Reported:
    """The values of the rollback alarm's metric after a minute with this client."""
    monkeypatch.setattr(golden_sender, "REPAIRS", set())

    def minute(client: Refusing) -> list[int]:
        with contextlib.suppress(UnsentError):
            send(EVENT, client, client, lambda _: None)
        lines = map(json.loads, capsys.readouterr().out.splitlines())
        return [line["GoldenRequestErrors"] for line in lines]

    return minute


EVENT = {"endpoint": "updates-canary", "body": "", "content_type": "text/csv", "per_minute": 2}
UNSENT = [
    refused("AccessDeniedException"),
    refused("ValidationError"),
    refused("ThrottlingException"),
    EndpointConnectionError(endpoint_url="https://runtime.example.com"),
]
OF_THE_FLEET = [
    refused("ModelError", OriginalStatusCode=415),
    refused("ModelError", OriginalStatusCode=503),
    refused("ServiceUnavailable"),
    ReadTimeoutError(endpoint_url="https://runtime.example.com"),
]


@pytest.mark.parametrize("error", UNSENT, ids=str)
def test_an_unsent_request_fails_the_function(error: Exception, reported: Reported) -> None:
    client = Refusing(error)
    with pytest.raises(UnsentError, match="2 of 2 requests gave no result: "):
        send(EVENT, client, client, lambda _: None)
    assert reported(Refusing(error)) == []


@pytest.mark.parametrize("error", OF_THE_FLEET, ids=str)
def test_an_error_counts_once_the_fleet_has_traffic(reported: Reported, error: Exception) -> None:
    assert reported(Refusing(error)) == [1, 1]
    assert reported(Refusing(error, stages=["Creating"])) == []


def test_an_update_that_repairs_a_failing_fleet_is_not_ended(reported: Reported) -> None:
    client = Refusing(refused("ModelError"), stages=["Creating", "Creating", "Baking"])
    assert (reported(client), reported(client)) == ([], [])


def test_an_update_whose_first_shift_came_in_that_minute_is_judged(reported: Reported) -> None:
    client = Refusing(refused("ModelError"), stages=["Creating", "Baking"])
    assert (reported(client), reported(client)) == ([], [1, 1])


def test_not_to_see_whether_it_is_updated_fails_the_function() -> None:
    client = Refusing(refused("AccessDeniedException"), of="describe_endpoint")
    with pytest.raises(UnsentError, match="cannot check whether updates-canary is being updated"):
        send(EVENT, client, client, lambda _: None)


def test_policies_name_an_endpoint_with_capitals_in_both_spellings() -> None:
    caller = '["arn:aws:iam::333333333333:role/caller"]'
    template = canary({"endpoint.name": "Updates-Canary", "endpoint.callers": caller})
    statements = [
        statement
        for resource in template["Resources"].values()
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
        if "sagemaker:InvokeEndpoint" in statement["Action"]
    ]
    arn = "arn:aws:sagemaker:eu-west-1:333333333333:endpoint/"
    spellings = [f"{arn}Updates-Canary", f"{arn}updates-canary"]
    assert [one["Resource"] for one in statements] == [spellings, spellings]


def test_without_the_table_the_template_has_no_function() -> None:
    (one,) = [loaded for loaded in load(ROOT, FOLDER) if loaded.name == "linear"]
    kinds = {resource["Type"] for resource in synthesise_endpoint(valid(one))["Resources"].values()}
    assert "AWS::Lambda::Function" not in kinds
