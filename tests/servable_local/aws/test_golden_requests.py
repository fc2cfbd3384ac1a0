"""An endpoint that nobody calls, updated to a version that fails: golden requests, or nobody notices."""

import base64
import contextlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from infra.constructs.rollout.golden_sender import CODE
from infra.functions import golden_sender
from infra.functions.golden_sender import UnsentError, send
from servable.plan.synthesis import synthesise_endpoint
from servable_local.aws.clock import ManualClock
from tests.checkouts import ROOT
from tests.servable_local.aws.boto_members import named
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.synthesised import DeployedNames, environment
from tests.servable_local.aws.test_guarded_update import Update

pytestmark = pytest.mark.long


def canary(overrides: dict[str, str]) -> dict[str, Any]:
    given = {"rollout.golden_requests.per_minute": "4", **overrides}
    return synthesise_endpoint(environment("canary", given))


@pytest.fixture(scope="module")
def templates() -> list[dict[str, Any]]:
    return [canary({}), canary({"variants.primary.container.tfs_processes": "2"})]


class Scheduled:
    """What EventBridge would do: the function with the rule's input, once a minute.

    What it prints reaches the metrics, as CloudWatch reads it from Lambda's log.
    """

    def __init__(self, deployed: DeployedNames, clock: ManualClock | None = None) -> None:
        self.client = deployed.account.client
        self._clock = clock
        rules = self.client("events").list_rules()["Rules"]
        (rule,) = (one for one in rules if "ScheduleExpression" in one)
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
        dimensions = named(**{name: line[name] for name in names})
        datum = {"MetricName": metric["Name"], "Dimensions": dimensions}
        datum |= {"Value": line[metric["Name"]], "Timestamp": self._clock.now()}
        put = self.client("cloudwatch").put_metric_data
        put(Namespace=published["Namespace"], MetricData=[datum])


Reported = Callable[["Refusing"], list[int]]
Failing = Callable[[bool, int], str]


@pytest.fixture
def failing(templates: list[dict[str, Any]], accounts: Account, clock: ManualClock) -> Failing:
    """What becomes of an update whose new version fails so, with golden requests or without."""

    def run(golden: bool, status: int) -> str:
        deployed = DeployedNames(accounts.another(), templates[0])
        clock.advance(seconds=60 - clock.now().second)
        update, sender = Update(deployed, templates[1]), Scheduled(deployed, clock)
        update.new.status = status
        for _ in range(15):
            if golden:
                sender.run()
            clock.advance(minutes=1)
        return f"{update.status()}: {update.endpoint().get('FailureReason', '')}"

    return run


def test_golden_requests_alone_take_an_update_that_fails_back(failing: Failing) -> None:
    ended = failing(True, 503)
    assert ended.startswith("UPDATE_ROLLBACK_COMPLETE: ")
    assert "updates-canary-rollback-golden-requests-" in ended
    assert failing(True, 200) == failing(False, 503) == "UPDATE_COMPLETE: "


def test_the_files_request_is_sent_every_minute_of_an_update_by_one_file_of_code(
    templates: list[dict[str, Any]], account: Account
) -> None:
    quiet = DeployedNames(account, templates[0])
    sender = Scheduled(quiet)
    body = (ROOT / "examples" / "ranker" / "golden" / "request-rows.json").read_bytes()
    assert (sender.every, base64.b64decode(sender.event["body"])) == ("rate(1 minute)", body)
    assert sender.run() == {"sent": 0, "failed": 0}
    sender.event["endpoint"] = "not-yet"
    assert sender.run() == {"sent": 0, "failed": 0}

    (made,) = quiet.account.client("lambda").list_functions()["Functions"]
    code, packed = CODE.read_bytes(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", code)
    size = len(packed.getvalue())
    assert (made["Handler"], made["CodeSize"]) == ("index.handler", size)
    assert len(code) <= 4096  # as Lambda takes it from a template


def of_kind(template: dict[str, Any], *kinds: str) -> dict[str, dict[str, Any]]:
    """{logical id: properties} of the template's resources of these kinds."""
    return {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] in kinds
    }


def test_the_template_has_the_alarm_and_permission(templates: list[dict[str, Any]]) -> None:
    arn = "arn:aws:sagemaker:eu-west-1:333333333333:endpoint/"
    policies = of_kind(templates[0], "AWS::IAM::Policy")
    (policy,) = (policies[name] for name in policies if name.startswith("GoldenRequests"))
    actions = ["sagemaker:DescribeEndpoint", "sagemaker:InvokeEndpoint"]
    allowed = {"Action": actions, "Effect": "Allow", "Resource": f"{arn}updates-canary"}
    assert policy["PolicyDocument"]["Statement"][0] == allowed
    alarms = of_kind(templates[0], "AWS::CloudWatch::Alarm").values()
    (alarm,) = (one for one in alarms if one["AlarmName"] == "updates-canary-golden-requests")
    (function,) = of_kind(templates[0], "AWS::Lambda::Function")
    shown = (alarm["Namespace"], alarm["MetricName"], alarm["Threshold"])
    assert shown == ("AWS/Lambda", "Errors", 0)
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": {"Ref": function}}]
    (action,) = alarm["AlarmActions"]
    assert action["Ref"].startswith("AlarmTopic")

    # Policies name an endpoint with capitals in both spellings.
    caller = '["arn:aws:iam::333333333333:role/caller"]'
    template = canary({"endpoint.name": "Updates-Canary", "endpoint.callers": caller})
    policies = of_kind(template, "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
    documents = [properties["PolicyDocument"]["Statement"] for properties in policies.values()]
    statements = [one for each in documents for one in each if actions[1] in one["Action"]]
    both = [f"{arn}Updates-Canary", f"{arn}updates-canary"]
    assert [statement["Resource"] for statement in statements] == [both] * 2
    assert of_kind(synthesise_endpoint(environment("linear")), "AWS::Lambda::Function") == {}


class Refusing:
    """A client of SageMaker and of its runtime: the endpoint is being updated, and calls fail so."""

    def __init__(self, error: Exception, *stages: str, of: str = "invoke_endpoint") -> None:
        self._error, self._of = error, of
        self._stages, self._stage = iter(stages or ("Baking",)), ""

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


@pytest.mark.parametrize(
    "error",
    [
        refused("AccessDeniedException"),
        refused("ValidationError"),
        refused("ThrottlingException"),
        EndpointConnectionError(endpoint_url="https://runtime.example.com"),
    ],
    ids=str,
)
def test_an_unsent_request_fails_the_function(error: Exception, reported: Reported) -> None:
    client = Refusing(error)
    with pytest.raises(UnsentError, match="2 of 2 requests gave no result: "):
        send(EVENT, client, client, lambda _: None)
    assert reported(Refusing(error)) == []
    unseen = Refusing(error, of="describe_endpoint")
    with pytest.raises(UnsentError, match="cannot check whether updates-canary is being updated"):
        send(EVENT, unseen, unseen, lambda _: None)


@pytest.mark.parametrize(
    "error",
    [
        refused("ModelError", OriginalStatusCode=415),
        refused("ModelError", OriginalStatusCode=503),
        refused("ServiceUnavailable"),
        ReadTimeoutError(endpoint_url="https://runtime.example.com"),
    ],
    ids=str,
)
def test_an_error_counts_once_the_fleet_has_traffic(reported: Reported, error: Exception) -> None:
    assert reported(Refusing(error)) == [1, 1]
    assert reported(Refusing(error, "Creating")) == []


def test_an_update_that_repairs_a_failing_fleet_is_not_ended(reported: Reported) -> None:
    client = Refusing(refused("ModelError"), "Creating", "Creating", "Baking")
    assert (reported(client), reported(client)) == ([], [])


def test_an_update_whose_first_shift_came_in_that_minute_is_judged(reported: Reported) -> None:
    client = Refusing(refused("ModelError"), "Creating", "Baking")
    assert (reported(client), reported(client)) == ([], [1, 1])
