"""An endpoint that nobody calls, updated to a version that fails: golden requests, or nobody notices."""

import base64
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from infra.constructs.rollout.golden_sender import CODE
from infra.functions.golden_sender import send
from infra.parameters.loading import load
from servable.plan.synthesis import endpoint_template
from servable_local.aws.clock import ManualClock
from servable_local.aws.embedded_aws import EmbeddedAws
from tests.checkouts import ROOT
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.synthesised import Deployed
from tests.servable_local.aws.test_guarded_update import Update

OTHER = {"variants.primary.container.tfs_processes": "2"}
FOLDER = ROOT / "examples" / "updates"


def canary(overrides: dict[str, str]) -> dict[str, Any]:
    given = {"canary": {"rollout.golden_requests.per_minute": "4", **overrides}}
    (one,) = [one for one in load(ROOT, FOLDER, given) if one.name == "canary"]
    return endpoint_template(one)


@pytest.fixture(scope="module")
def templates() -> list[dict[str, Any]]:
    return [canary({}), canary(OTHER)]


@pytest.fixture(scope="module")
def quiet(templates: list[dict[str, Any]], embedded: EmbeddedAws, launcher: Launcher) -> Deployed:
    return Deployed(embedded, launcher, templates[0])


class Scheduled:
    """What EventBridge would do: the function with the rule's input, once a minute."""

    def __init__(self, deployed: Deployed) -> None:
        self.client = deployed.account.client
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
        found: dict[str, int] = send(self.event, sagemaker, runtime, self.waited.append)
        return found


Failing = Callable[[bool], str]


@pytest.fixture
def failing(
    templates: list[dict[str, Any]], embedded: EmbeddedAws, launcher: Launcher, clock: ManualClock
) -> Failing:
    """What becomes of an update whose new version answers 503, with golden requests or without."""

    def run(golden: bool) -> str:
        deployed = Deployed(embedded, launcher, templates[0])
        clock.advance(seconds=60 - clock.now().second)
        update, sender = Update(deployed, templates[1]), Scheduled(deployed)
        update.new.status = 503
        for _ in range(15):
            if golden:
                sender.run()
            clock.advance(minutes=1)
        return update.status()

    return run


def test_with_golden_requests_it_is_taken_back(failing: Failing) -> None:
    assert failing(True) == "UPDATE_ROLLBACK_COMPLETE"


def test_without_them_nobody_notices(failing: Failing) -> None:
    assert failing(False) == "UPDATE_COMPLETE"


def test_it_looks_every_minute(quiet: Deployed) -> None:
    assert Scheduled(quiet).every == "rate(1 minute)"


def test_while_nothing_is_updated_nothing_is_sent(quiet: Deployed) -> None:
    assert Scheduled(quiet).run() == {"sent": 0, "failed": 0}


def test_before_the_endpoint_exists_nothing_is_sent(quiet: Deployed) -> None:
    sender = Scheduled(quiet)
    sender.event["endpoint"] = "not-yet"
    assert sender.run() == {"sent": 0, "failed": 0}


def test_the_body_is_the_files(quiet: Deployed) -> None:
    body = (ROOT / "examples" / "ranker" / "golden" / "request-rows.json").read_bytes()
    assert base64.b64decode(Scheduled(quiet).event["body"]) == body


def test_the_deployed_code_is_one_file_that_lambda_takes_from_a_template(quiet: Deployed) -> None:
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


def test_it_may_ask_this_endpoint_and_no_other(templates: list[dict[str, Any]]) -> None:
    (policy,) = [
        one["Properties"]["PolicyDocument"]["Statement"]
        for name, one in templates[0]["Resources"].items()
        if one["Type"] == "AWS::IAM::Policy" and name.startswith("GoldenRequests")
    ]
    assert policy[0] == {
        "Action": ["sagemaker:DescribeEndpoint", "sagemaker:InvokeEndpoint"],
        "Effect": "Allow",
        "Resource": "arn:aws:sagemaker:eu-west-1:333333333333:endpoint/updates-canary",
    }


def test_without_the_table_the_template_has_no_function() -> None:
    (one,) = [one for one in load(ROOT, FOLDER) if one.name == "linear"]
    kinds = {resource["Type"] for resource in endpoint_template(one)["Resources"].values()}
    assert "AWS::Lambda::Function" not in kinds
