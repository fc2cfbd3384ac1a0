"""The states of one endpoint: created, updated in stages, taken back, scaled and deleted.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.container import VariantStartError
from servable_local.aws.sagemaker.described import (
    build_event_detail,
    describe_hosted_endpoint,
    resolve_image,
)
from servable_local.aws.sagemaker.endpoint import DEPLOYMENT, STATE
from tests.servable_local.aws.endpoint_case import CANARY, Case, blue_green


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path).created()


# --- creation
def test_an_endpoint_is_created_and_then_in_service(case: Case) -> None:
    assert case.events == [(STATE, "Creating"), (STATE, "InService")]
    assert case.routed(2) == ["", ""]
    route = case.endpoint.choose_route(None)
    assert route is not None
    assert [each and each.name for each in (route.variant, route.shadow)] == ["primary", "shadow"]
    for name in ("absent", "shadow"):
        with pytest.raises(KeyError):
            case.endpoint.choose_route(name)
    before = list(case.events)
    assert (case.after(60), case.events) == ("InService", before)


def test_an_endpoint_that_does_not_start_has_failed_with_the_reason(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.error = VariantStartError("no model")
    case.created()
    assert (case.endpoint.status, case.endpoint.failure) == ("Failed", "no model")
    assert case.events[-1] == (STATE, "Failed")

    case = Case(tmp_path)
    case.error = ZeroDivisionError("x")
    case.created()
    assert case.endpoint.failure == "Internal failure of the local AWS: ZeroDivisionError('x')"


def test_before_anything_serves_nothing_is_routed_or_left(tmp_path: Path) -> None:
    assert Case(tmp_path).endpoint.choose_route(None) is None

    case = Case(tmp_path)
    case.endpoint.close()
    case.created()
    assert [one.closed for one in case.containers("first")] == [True, True]
    assert (case.endpoint.fleet, case.endpoint.status) == (None, "Creating")


# --- updates
def test_an_update_bakes_and_ends_once(case: Case) -> None:
    case.update(blue_green(CANARY))
    with pytest.raises(SageMakerError, match='Cannot update in-progress endpoint "arn:ranker"'):
        case.endpoint.delete(lambda: None)
    assert [case.after(seconds) for seconds in (59, 1, 119, 1)] == [*["Updating"] * 3, "InService"]
    stage = [(STATE, "Updating"), (DEPLOYMENT, "Updating"), (DEPLOYMENT, "Updating")]
    assert case.events[2:] == [*stage, (STATE, "InService")]

    case = case.another()
    case.update()
    shown = case.endpoint.status, case.endpoint.config["EndpointConfigName"]
    assert shown == ("InService", "second")
    assert [one.closed for one in case.containers("first")] == [True, True]
    assert case.events[2:] == [(STATE, "Updating"), (STATE, "InService")]
    case = case.another()
    case.update(blue_green(CANARY))
    update = case.endpoint.rollout
    assert update is not None
    case.after(180)
    before = list(case.events)
    case.endpoint._advance_rollout(update, case.clock.now())
    assert (case.events, case.endpoint.status) == (before, "InService")


def test_a_canary_takes_its_share_and_says_which_stage_is_pending(case: Case) -> None:
    case.update(blue_green(CANARY))
    assert sorted(case.routed(8)) == ["first"] * 6 + ["second"] * 2
    started = case.clock.now()
    case.after(60)
    pending = describe_hosted_endpoint(case.endpoint)["PendingDeploymentSummary"]
    (variant,) = pending["ProductionVariants"]
    assert (pending["EndpointConfigName"], pending["StartTime"]) == ("second", started)
    message = (
        "Baking for 120 seconds (TerminationWaitInSeconds) with traffic enabled on full capacity"
    )
    assert variant["VariantStatus"] == [{
        "Status": "Baking", "StatusMessage": f"{message} of 4 instance(s).",
        "StartTime": started + timedelta(seconds=60),
    }]  # fmt: skip


def test_a_deployment_is_pending_to_its_end(case: Case, tmp_path: Path) -> None:
    seen: list[Any] = []
    start, endpoint = case._start, case.endpoint

    def starting(name: str) -> Any:
        seen.append(describe_hosted_endpoint(endpoint)["PendingDeploymentSummary"])
        return start(name)

    object.__setattr__(endpoint._dependencies, "start", starting)
    assert "PendingDeploymentSummary" not in describe_hosted_endpoint(endpoint)
    case.update()  # at once, without a policy
    (pending,) = seen
    assert pending["EndpointConfigName"] == "second"
    status = [{"Status": "Creating", "StartTime": pending["StartTime"]}]
    assert pending["ProductionVariants"] == [{"VariantName": "primary", "VariantStatus": status}]
    assert "PendingDeploymentSummary" not in describe_hosted_endpoint(endpoint)

    new = Case(tmp_path)
    summary = describe_hosted_endpoint(new.endpoint)["PendingDeploymentSummary"]
    assert summary["EndpointConfigName"] == "first"
    new.error = VariantStartError("no")
    assert "PendingDeploymentSummary" not in describe_hosted_endpoint(new.created().endpoint)


# --- descriptions
def test_an_endpoints_event_variant_kind_and_image_are_described(
    case: Case, tmp_path: Path
) -> None:
    detail = build_event_detail(case.endpoint, {"team": "search"})
    assert (detail["EndpointStatus"], detail["Tags"]) == ("IN_SERVICE", {"team": "search"})
    # 2026-01-01 in UTC
    assert detail["CreationTime"] == 1_767_225_600_000
    (image,) = detail["ProductionVariants"][0]["DeployedImages"]
    assert image["ResolutionTime"] == 1_767_225_600_000

    variant = case.fleet.variants["primary"]
    variant.serverless = {"MaxConcurrency": 5}
    (shown,) = describe_hosted_endpoint(case.endpoint)["ProductionVariants"]
    both = {f"{when}ServerlessConfig": {"MaxConcurrency": 5} for when in ("Current", "Desired")}
    assert shown == shown | both
    assert "CurrentInstanceCount" not in shown
    kinds: list[tuple[dict[str, Any], str]] = [
        ({}, "real_time"),
        ({"AsyncInferenceConfig": {}}, "asynchronous"),
        ({"ProductionVariants": [{"ServerlessConfig": {}}]}, "serverless"),
    ]
    for settings, kind in kinds:
        assert Case(tmp_path, **settings).endpoint.kind == kind
    repositories = ("1.dkr.ecr.us-east-1.amazonaws.com/tf", "localhost:5000/tf", "tf")
    for repository, tag in zip(repositories, (":2.20-cpu", "", ""), strict=True):
        image = repository + tag
        found = resolve_image(image)
        resolved, digest = found["ResolvedImage"].split("@sha256:")
        assert (found["SpecifiedImage"], resolved, len(digest)) == (image, repository, 64)
        assert resolve_image(found["ResolvedImage"])["ResolvedImage"] == found["ResolvedImage"]


def test_a_deleted_endpoint_is_there_until_its_containers_have_ended(case: Case) -> None:
    steps: list[Any] = []
    case.endpoint._run_in_background = steps.append  # type: ignore[method-assign, assignment]
    gone: list[str] = []
    case.endpoint.delete(lambda: gone.append(case.endpoint.name))
    assert (describe_hosted_endpoint(case.endpoint)["EndpointStatus"], gone) == ("Deleting", [])
    assert [container.closed for container in case.containers("first")] == [False, False]
    with pytest.raises(SageMakerError, match="in-progress"):
        case.endpoint.delete(lambda: None)
    for step in steps:
        step()
    assert gone == ["ranker"]
    assert [container.closed for container in case.containers("first")] == [True, True]


def test_an_update_is_taken_back_by_an_alarm_or_a_failure(case: Case) -> None:
    case.update(blue_green(CANARY))
    case.alarms = ["unrelated", "errors"]
    assert (case.after(10), case.endpoint.config["EndpointConfigName"]) == ("InService", "first")
    assert case.endpoint.failure is not None
    assert "alarm(s) [errors]" in case.endpoint.failure
    assert [one.closed for one in case.containers("second")] == [True, True]
    assert case.events[-2:] == [(STATE, "RollingBack"), (STATE, "InService")]

    case = case.another()
    case.alarms = ["unrelated"]
    case.update(blue_green(CANARY))
    assert case.after(10) == "Updating"

    case = case.another()
    case.error = VariantStartError("no capacity")
    case.update()
    assert (case.endpoint.status, case.endpoint.failure) == ("InService", "no capacity")
    assert case.routed(1) == [""]


@pytest.mark.parametrize(("seconds", "status"), [(99, "Updating"), (100, "InService")])
@pytest.mark.parametrize("policy", ["BlueGreenUpdatePolicy", "RollingUpdatePolicy"])
def test_a_long_update_is_taken_back(case: Case, seconds: int, status: str, policy: str) -> None:
    longest = {"MaximumExecutionTimeoutInSeconds": 100}
    size = {"MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1}}
    rolling = size | longest | {"WaitIntervalInSeconds": 60}
    given = blue_green(CANARY, **longest) | {"RollingUpdatePolicy": rolling}
    case.update({policy: given[policy]})
    reached = case.after(seconds)
    assert (reached, "100." in (case.endpoint.failure or "")) == (status, reached == "InService")


def test_containers_of_both_fleets_are_looked_after_and_closed(case: Case) -> None:
    case.update(blue_green(CANARY))
    case.after(10)
    both = case.containers("first") + case.containers("second")
    assert [one.healed for one in both] == [1] * 4
    case.endpoint.close()
    case.endpoint.close()
    assert ([one.closed for one in both], case.endpoint.rollout) == ([True] * 4, None)


def test_an_update_keeps_what_it_retains_and_captures_as_its_configuration_says(case: Case) -> None:
    case.fleet.variants["primary"].weight = 0.3
    case.endpoint.scale({"primary": 2})
    capture = {"InitialSamplingPercentage": 50, "DestinationS3Uri": "s3://b"}
    case.update(None, "DesiredInstanceCount", DataCaptureConfig=capture)
    variant = case.fleets["second"].variants["primary"]
    assert (variant.instances.desired, variant.weight) == (2, 1.0)
    assert describe_hosted_endpoint(case.endpoint)["DataCaptureConfig"] == {
        "EnableCapture": True, "CaptureStatus": "Started", "CurrentSamplingPercentage": 50,
        "DestinationS3Uri": "s3://b", "KmsKeyId": "",
    }  # fmt: skip


# --- scaling
def test_while_instances_start_the_endpoint_is_updating(case: Case) -> None:
    case.endpoint.instance_faults.start_seconds = 60
    case.endpoint.scale({"primary": 6})
    (variant,) = describe_hosted_endpoint(case.endpoint)["ProductionVariants"]
    said = {"Status": "Updating", "StatusMessage": "Scaling out desired instance count to 6."}
    assert (case.endpoint.status, variant["VariantStatus"]) == ("Updating", [said])
    assert (variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]) == (4, 6)
    assert (case.after(59), case.after(1)) == ("Updating", "InService")
    assert [to for kind, to in case.events if kind == DEPLOYMENT] == ["Updating", "InService"]

    case.endpoint.scale({"primary": 2})
    (variant,) = describe_hosted_endpoint(case.endpoint)["ProductionVariants"]
    assert (case.endpoint.status, "VariantStatus" in variant) == ("InService", False)
    assert case.events[-1] == (DEPLOYMENT, "InService")
