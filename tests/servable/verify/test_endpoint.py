"""An endpoint against what is live: configuration, models, weights, counts, and components."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from servable.verify.deployed import Resource
from servable.verify.difference import RESTORE, Difference
from servable.verify.endpoint import compare_batch_models, compare_endpoints, describe_fleets
from tests.servable.verify.answering import AnsweringAccount, resource, stack

ARN, TIME = "arn:aws:sagemaker:us-east-1:111111111111", "2026-11-29T00:00:00Z"
ROLE = "arn:aws:iam::111111111111:role/serving"
VARIANT: dict[str, Any] = {
    "VariantName": "primary",
    "ModelName": "model-1",
    "InstanceType": "ml.c5.xlarge",
    "InitialInstanceCount": 2,
    "InitialVariantWeight": 9,
}
CONTAINER = {"Image": "i:2.20", "ModelDataUrl": "s3://b/k", "Environment": {"WORKERS": "4"}}
GUARDED = {"RollingUpdatePolicy": {"WaitIntervalInSeconds": 60, "MaximumBatchSize": {
    "Type": "CAPACITY_PERCENT", "Value": 50}}}  # fmt: skip


class Live:
    """What SageMaker answers, and the deployed resources; a test changes either."""

    def __init__(self, **variant: Any) -> None:
        one = {**VARIANT, **variant}
        self.endpoint: dict[str, Any] | None = {
            "EndpointName": "ranker",
            "EndpointArn": f"{ARN}:endpoint/ranker",
            "EndpointConfigName": "config-1",
            "EndpointStatus": "InService",
            "CreationTime": TIME,
            "LastModifiedTime": TIME,
            "LastDeploymentConfig": GUARDED,
            "ProductionVariants": [
                {"VariantName": "primary", "CurrentWeight": 9.0, "CurrentInstanceCount": 2}
            ],
        }
        self.config: dict[str, Any] | None = {
            "EndpointConfigName": "config-1",
            "EndpointConfigArn": f"{ARN}:endpoint-config/config-1",
            "CreationTime": TIME,
            "ProductionVariants": [copy.deepcopy(one)],
        }
        self.models: dict[str, dict[str, Any]] = {
            name: {
                "ModelName": name,
                "ModelArn": f"{ARN}:model/{name}",
                "CreationTime": TIME,
                "ExecutionRoleArn": ROLE,
                "PrimaryContainer": copy.deepcopy(CONTAINER),
            }
            for name in ("model-1", "by-hand")
        }
        self.component: dict[str, Any] | None = None
        self.resources: list[Resource] = [
            resource(
                "SageMaker::Endpoint",
                "ranker",
                EndpointName="ranker",
                EndpointConfigName="config-1",
                DeploymentConfig=GUARDED,
            ),
            resource("SageMaker::EndpointConfig", "config-1", ProductionVariants=[one]),
            resource(
                "SageMaker::Model", "model-1", ExecutionRoleArn=ROLE, PrimaryContainer=CONTAINER
            ),
        ]

    @property
    def variant(self) -> dict[str, Any]:
        assert self.config is not None
        found: dict[str, Any] = self.config["ProductionVariants"][0]
        return found

    @property
    def running(self) -> dict[str, Any]:
        assert self.endpoint is not None
        found: dict[str, Any] = self.endpoint["ProductionVariants"][0]
        return found

    def stack(self) -> Any:
        def model(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
            return self.models.get(asked["ModelName"])

        account = AnsweringAccount(
            DescribeEndpoint=self.endpoint,
            DescribeEndpointConfig=self.config,
            DescribeModel=model,
            DescribeInferenceComponent=lambda asked: self.component,
        )
        return stack(account, *self.resources)

    def find(self) -> list[Difference]:
        return list(compare_endpoints(self.stack()))

    def named(self) -> list[tuple[str, str, str]]:
        return [(each.kind, each.resource, each.key) for each in self.find()]

    def scale(self, **more: Any) -> None:
        target = {
            "ResourceId": "endpoint/ranker/variant/primary",
            "MinCapacity": 1,
            "MaxCapacity": 4,
        }
        kind = "ApplicationAutoScaling::ScalableTarget"
        self.resources.append(resource(kind, "t", **{**target, **more}))


@pytest.fixture
def live() -> Live:
    return Live()


def test_an_endpoint_as_deployed_has_no_difference(live: Live) -> None:
    assert live.named() == []
    assert live.endpoint is not None
    del live.endpoint["LastDeploymentConfig"]  # as after its creation
    assert live.named() == []


def test_a_missing_endpoint_or_configuration_or_model_is_named(live: Live) -> None:
    live.models = {}
    assert live.named() == [("model missing", "model-1", "")]
    live.config = None
    assert live.named() == [("endpoint configuration missing", "config-1", "")]
    live.endpoint = None
    assert live.named() == [("endpoint missing", "ranker", "")]


@pytest.mark.parametrize(
    ("status", "remedy"),
    [("Failed", "the reason: no capacity"), ("Updating", "wait, then verify again")],
)
def test_an_endpoint_that_is_not_in_service_has_its_reason(
    live: Live, status: str, remedy: str
) -> None:
    assert live.endpoint is not None
    live.endpoint |= {"EndpointStatus": status, "FailureReason": "no capacity"}
    (found,) = live.find()
    assert (found.kind, found.found, found.remedy) == ("endpoint status", status, remedy)


def test_another_configuration_in_force_is_a_silent_rollback(live: Live) -> None:
    assert live.endpoint is not None
    live.endpoint["EndpointConfigName"] = "config-0"
    (found,) = live.find()
    assert (found.kind, found.wanted, found.found) == ("silent rollback", "config-1", "config-0")
    assert "AWS gives no reason; check the alarm topic's events" in found.remedy
    live.endpoint["FailureReason"] = "an alarm"
    assert live.find()[0].remedy.endswith(f"an alarm; fix that, and {RESTORE}")


def test_other_deployment_guardrails_are_a_difference(live: Live) -> None:
    assert live.endpoint is not None
    live.endpoint["LastDeploymentConfig"] = {
        "RollingUpdatePolicy": {**GUARDED["RollingUpdatePolicy"], "WaitIntervalInSeconds": 0}
    }
    assert [(kind, key) for kind, _, key in live.named()] == [
        ("deployment guardrails", "RollingUpdatePolicy.WaitIntervalInSeconds")
    ]


def test_settings_of_the_configuration_are_compared_and_names_of_models_are_not(live: Live) -> None:
    assert live.config is not None
    live.variant["ModelName"] = "by-hand"
    assert live.named() == []
    live.variant["InstanceType"] = "ml.m5.large"
    live.config["KmsKeyId"] = "k"
    found = live.find()
    assert [(each.kind, each.key) for each in found] == [
        ("endpoint configuration", "ProductionVariants[primary].InstanceType"),
        ("endpoint configuration", "KmsKeyId"),
    ]
    assert all(RESTORE in each.remedy for each in found)


def test_a_running_capture_that_nobody_deployed_is_a_difference(live: Live) -> None:
    assert live.endpoint is not None
    live.endpoint["DataCaptureConfig"] = {
        "EnableCapture": True, "CaptureStatus": "Started", "CurrentSamplingPercentage": 10,
        "DestinationS3Uri": "s3://b", "KmsKeyId": "k",
    }  # fmt: skip
    assert live.named() == [("data capture", "ranker", "EnableCapture")]


def test_what_a_model_runs_is_compared_with_every_variable(live: Live) -> None:
    live.models["model-1"]["PrimaryContainer"] |= {
        "Image": "i:2.19",
        "Environment": {"WORKERS": "4", "LOG": "1"},
    }
    live.models["model-1"]["EnableNetworkIsolation"] = True
    assert live.named() == [
        ("model", "model-1", "PrimaryContainer.Image"),
        ("model", "model-1", "EnableNetworkIsolation"),
        ("model", "model-1", "PrimaryContainer.Environment.LOG"),
    ]


def test_a_drifted_weight_is_set_back_by_a_command(live: Live) -> None:
    live.running["CurrentWeight"] = 5.0
    (found,) = live.find()
    assert (found.kind, found.resource, found.wanted) == ("drifted weight", "ranker/primary", 9)
    assert found.remedy.endswith(
        "--endpoint-name ranker --region us-east-1 "
        "--desired-weights-and-capacities VariantName=primary,DesiredWeight=9`"
    )
    live.running["VariantName"] = "another"
    assert live.named() == []  # named with the configuration


@pytest.mark.parametrize(("count", "drifted"), [(1, True), (2, False), (3, True), (None, True)])
def test_without_scaling_the_count_is_the_files(
    live: Live, count: int | None, drifted: bool
) -> None:
    live.running["CurrentInstanceCount"] = count or 0
    if count is None:
        del live.running["CurrentInstanceCount"]
    found = live.find()
    assert [each.kind for each in found] == ["drifted count"] * drifted
    for each in found:
        assert (each.key, each.wanted, each.found) == ("CurrentInstanceCount", 2, count)
        assert each.remedy.endswith("VariantName=primary,DesiredInstanceCount=2`")


@pytest.mark.parametrize(("count", "drifted"), [(0, True), (1, False), (4, False), (5, True)])
def test_with_scaling_the_count_lies_in_its_bounds(live: Live, count: int, drifted: bool) -> None:
    live.scale()
    live.running["CurrentInstanceCount"] = count
    found = live.find()
    assert [each.kind for each in found] == ["drifted count"] * drifted
    for each in found:
        assert each.wanted == "1 to 4"
        assert each.remedy == "scaling hasn't restored it; check the scaling activities"


@pytest.mark.parametrize(("count", "drifted"), [(0, False), (9, False), (10, True)])
def test_a_schedule_widens_the_bounds(live: Live, count: int, drifted: bool) -> None:
    actions = [{"MinCapacity": 0}, {"MaxCapacity": 9}]
    live.scale(ScheduledActions=[{"ScalableTargetAction": action} for action in actions])
    live.running["CurrentInstanceCount"] = count
    assert [kind for kind, *_ in live.named()] == ["drifted count"] * drifted


@pytest.mark.parametrize(("count", "drifted"), [(2, True), (3, False), (6, False), (7, True)])
def test_managed_instances_have_the_bounds_of_the_configuration(count: int, drifted: bool) -> None:
    live = Live(ManagedInstanceScaling={"MinInstanceCount": 3, "MaxInstanceCount": 6})
    live.running["CurrentInstanceCount"] = count
    assert [kind for kind, *_ in live.named()] == ["drifted count"] * drifted


@pytest.mark.parametrize(
    ("wanted", "now", "drifted"),
    [(None, None, False), (3, 3, False), (3, 2, True), (3, None, True)],
)
def test_of_serverless_the_provisioned_concurrency_counts(
    wanted: int | None, now: int | None, drifted: bool
) -> None:
    sizes = {"MemorySizeInMB": 2048, "MaxConcurrency": 5}
    configured = sizes | ({} if wanted is None else {"ProvisionedConcurrency": wanted})
    live = Live(ServerlessConfig=configured)
    live.running["CurrentServerlessConfig"] = sizes | (
        {} if now is None else {"ProvisionedConcurrency": now}
    )
    found = live.find()
    assert [each.key for each in found] == ["ProvisionedConcurrency"] * drifted


def test_each_type_of_a_pool_has_its_own_model() -> None:
    def pools(second: str) -> dict[str, Any]:
        return {
            "InstancePools": [
                {"InstanceType": "ml.c5.xlarge", "Priority": 1},
                {"InstanceType": "ml.m5.xlarge", "Priority": 2, "ModelNameOverride": second},
            ]
        }

    live = Live(**pools("by-hand"))
    live.resources.append(
        resource("SageMaker::Model", "by-hand", PrimaryContainer={**CONTAINER, "Image": "i:2.19"})
    )
    assert live.named() == [("model", "by-hand", "PrimaryContainer.Image")]


def test_an_inference_component_is_compared_with_what_its_copies_run(live: Live) -> None:
    wanted = {
        "ModelName": "model-1",
        "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024},
    }
    live.resources.append(
        resource(
            "SageMaker::InferenceComponent",
            "c",
            InferenceComponentName="ranker-a",
            Specification=wanted,
        )
    )
    assert live.named() == [("inference component missing", "ranker-a", "")]
    live.component = {
        "InferenceComponentName": "ranker-a",
        "InferenceComponentArn": f"{ARN}:inference-component/ranker-a",
        "EndpointName": "ranker",
        "EndpointArn": f"{ARN}:endpoint/ranker",
        "CreationTime": TIME,
        "LastModifiedTime": TIME,
        "InferenceComponentStatus": "InService",
        "Specification": copy.deepcopy(wanted),
    }
    assert live.named() == []
    live.component["InferenceComponentStatus"] = "Failed"
    (failed,) = live.find()
    assert (failed.found, failed.remedy) == ("Failed", "the reason: none is stated")
    live.component["InferenceComponentStatus"] = "InService"
    live.component["Specification"]["ComputeResourceRequirements"] = {"MinMemoryRequiredInMb": 2048}
    ((kind, name, key),) = live.named()
    assert (kind, name, key.rsplit(".")[-1]) == (
        "inference component",
        "ranker-a",
        "MinMemoryRequiredInMb",
    )


def test_models_that_no_endpoint_serves_are_compared_too(live: Live) -> None:
    assert list(compare_batch_models(live.stack())) == []
    live.models["model-1"]["PrimaryContainer"]["Image"] = "served, and compared with its endpoint"
    live.resources.append(resource("SageMaker::Model", "of-batch", PrimaryContainer=CONTAINER))
    (missing,) = compare_batch_models(live.stack())
    assert (missing.kind, missing.resource) == ("model missing", "of-batch")
    live.models["of-batch"] = {**live.models["by-hand"]}
    assert list(compare_batch_models(live.stack())) == []
    live.models["of-batch"]["PrimaryContainer"] = {**CONTAINER, "Image": "i:2.19"}
    assert [each.key for each in compare_batch_models(live.stack())] == ["PrimaryContainer.Image"]


def test_the_fleet_of_a_pool_is_counted_by_type_with_the_preferred_one_first() -> None:
    live = Live(InstancePools=[{"InstanceType": "ml.m5.large", "Priority": 1},
                               {"InstanceType": "ml.c5.large", "Priority": 2}])  # fmt: skip

    def said(**counts: int) -> list[str]:
        pools = [
            {"InstanceType": f"ml.{kind}.large", "CurrentInstanceCount": count}
            for kind, count in counts.items()
        ]
        live.running.pop("InstancePools", None)
        live.running.update({"InstancePools": pools} if pools else {})
        return list(describe_fleets(live.stack()))

    assert said(c5=0, m5=2) == ["primary runs on 2 x ml.m5.large, 0 x ml.c5.large"]
    (elsewhere,) = said(c5=1, m5=2)
    assert elsewhere.startswith(
        "primary runs on 2 x ml.m5.large, 1 x ml.c5.large: AWS had too few ml.m5.large when 1 of them"
    )
    assert said() == []
    live.endpoint = None
    assert list(describe_fleets(live.stack())) == []
