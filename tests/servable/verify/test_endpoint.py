"""An endpoint against what is live: configuration, models, weights, counts, and components."""

import copy
from typing import Any

from servable.verify.deployed import Resource
from servable.verify.difference import RESTORE, Difference
from servable.verify.endpoint import compare_batch_models, compare_endpoints
from tests.servable.verify.answering import AnsweringAccount, keys, resource, stack

ROLE = "arn:aws:iam::111111111111:role/serving"
VARIANT: dict[str, Any] = {
    "VariantName": "primary",
    "ModelName": "model-1",
    "InstanceType": "ml.c5.xlarge",
    "InitialInstanceCount": 2,
    "InitialVariantWeight": 9,
}
NAMES: dict[str, Any] = {"EndpointName": "ranker", "EndpointConfigName": "config-1"}
CONTAINER = {"Image": "i:2.20", "ModelDataUrl": "s3://b/k", "Environment": {"WORKERS": "4"}}
MODEL: dict[str, Any] = {"ExecutionRoleArn": ROLE, "PrimaryContainer": CONTAINER}
GUARDED = {"RollingUpdatePolicy": {"WaitIntervalInSeconds": 60, "MaximumBatchSize": {
    "Type": "CAPACITY_PERCENT", "Value": 50}}}  # fmt: skip


class Live:
    """What SageMaker answers, and the deployed resources; a test changes either."""

    def __init__(self, **variant: Any) -> None:
        one = {**VARIANT, **variant}
        self.running: dict[str, Any] = {
            "VariantName": "primary", "CurrentWeight": 9.0, "CurrentInstanceCount": 2,
        }  # fmt: skip
        self.endpoint: Any = NAMES | {
            "EndpointStatus": "InService",
            "LastDeploymentConfig": GUARDED,
            "ProductionVariants": [self.running],
        }
        self.variant = copy.deepcopy(one)
        self.config: Any = {"ProductionVariants": [self.variant]}
        self.models = {name: copy.deepcopy(MODEL) for name in ("model-1", "by-hand")}
        self.component: Any = None
        self.resources: list[Resource] = [
            resource("SageMaker::Endpoint", "ranker", DeploymentConfig=GUARDED, **NAMES),
            resource("SageMaker::EndpointConfig", "config-1", ProductionVariants=[one]),
            resource("SageMaker::Model", "model-1", **MODEL),
        ]

    def stack(self) -> Any:
        account = AnsweringAccount(
            DescribeEndpoint=self.endpoint,
            DescribeEndpointConfig=self.config,
            DescribeModel=lambda asked: self.models.get(asked["ModelName"]),
            DescribeInferenceComponent=lambda asked: self.component,
        )
        return stack(account, *self.resources)

    def find(self) -> list[Difference]:
        return [each for each in compare_endpoints(self.stack()) if not isinstance(each, str)]

    def named(self) -> list[tuple[str, str, str]]:
        return keys(self.find())

    def scale(self, **more: Any) -> None:
        kind, name = "ApplicationAutoScaling::ScalableTarget", "endpoint/ranker/variant/primary"
        bounds = {"MinCapacity": 1, "MaxCapacity": 4}
        self.resources.append(resource(kind, "t", ResourceId=name, **bounds, **more))


def test_an_endpoint_as_deployed_has_no_difference_and_what_is_missing_is_named() -> None:
    live = Live()
    assert live.named() == []
    del live.endpoint["LastDeploymentConfig"]  # as after its creation
    assert live.named() == []

    live = Live()
    live.models = {}
    assert live.named() == [("model missing", "model-1", "")]
    live.config = None
    assert live.named() == [("endpoint configuration missing", "config-1", "")]
    live.endpoint = None
    assert live.named() == [("endpoint missing", "ranker", "")]


def test_an_endpoint_out_of_service_or_rolled_back_silently_has_its_reason() -> None:
    remedies = {"Failed": "the reason: no capacity", "Updating": "wait, then verify again"}
    for status, remedy in remedies.items():
        live = Live()
        live.endpoint |= {"EndpointStatus": status, "FailureReason": "no capacity"}
        (found,) = live.find()
        assert (found.kind, found.found, found.remedy) == ("endpoint status", status, remedy)

    live = Live()
    live.endpoint["EndpointConfigName"] = "config-0"
    (found,) = live.find()
    assert (found.kind, found.wanted, found.found) == ("silent rollback", "config-1", "config-0")
    assert "AWS gives no reason; check the alarm topic's events" in found.remedy
    live.endpoint["FailureReason"] = "an alarm"
    assert live.find()[0].remedy.endswith(f"an alarm; fix that, and {RESTORE}")


def test_settings_guardrails_and_capture_are_compared_and_names_of_models_are_not() -> None:
    live = Live()
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
    live.variant["InstancePools"] = [{"InstanceType": "ml.m5.large", "Priority": 1}]
    assert "ProductionVariants[primary].InstancePools" in [each.key for each in live.find()]

    live = Live()
    live.endpoint["LastDeploymentConfig"] = copy.deepcopy(GUARDED)
    live.endpoint["LastDeploymentConfig"]["RollingUpdatePolicy"]["WaitIntervalInSeconds"] = 0
    ((kind, _, key),) = live.named()
    guardrails = ("deployment guardrails", "RollingUpdatePolicy.WaitIntervalInSeconds")
    assert (kind, key) == guardrails

    live = Live()
    live.endpoint["DataCaptureConfig"] = {
        "EnableCapture": True, "CaptureStatus": "Started", "CurrentSamplingPercentage": 10,
        "DestinationS3Uri": "s3://b", "KmsKeyId": "k",
    }  # fmt: skip
    assert live.named() == [("data capture", "ranker", "EnableCapture")]


def test_what_models_run_is_compared_each_type_of_a_pool_with_its_own() -> None:
    live = Live()
    live.models["model-1"]["PrimaryContainer"]["Image"] = "i:2.19"
    live.models["model-1"]["PrimaryContainer"]["Environment"]["LOG"] = "1"
    live.models["model-1"]["EnableNetworkIsolation"] = True
    assert live.named() == [
        ("model", "model-1", "PrimaryContainer.Image"),
        ("model", "model-1", "EnableNetworkIsolation"),
        ("model", "model-1", "PrimaryContainer.Environment.LOG"),
    ]

    pools = [
        {"InstanceType": "ml.c5.xlarge", "Priority": 1},
        {"InstanceType": "ml.m5.xlarge", "Priority": 2, "ModelNameOverride": "by-hand"},
    ]
    live, other = Live(InstancePools=pools), {**CONTAINER, "Image": "i:2.19"}
    live.resources.append(resource("SageMaker::Model", "by-hand", PrimaryContainer=other))
    assert live.named() == [("model", "by-hand", "PrimaryContainer.Image")]
    assert Live(ModelName="of another stack").named() == []

    live = Live()
    assert list(compare_batch_models(live.stack())) == []
    live.models["model-1"]["PrimaryContainer"]["Image"] = "served, and compared with its endpoint"
    alone = {"PrimaryContainer": CONTAINER, "EnableNetworkIsolation": True}
    live.resources.append(resource("SageMaker::Model", "of-batch", **alone))
    (missing,) = compare_batch_models(live.stack())
    assert (missing.kind, missing.resource) == ("model missing", "of-batch")
    live.models["of-batch"] = {**live.models["by-hand"], **alone}
    assert list(compare_batch_models(live.stack())) == []
    live.models["of-batch"]["PrimaryContainer"] = other
    assert [each.key for each in compare_batch_models(live.stack())] == ["PrimaryContainer.Image"]


def test_a_drifted_weight_is_set_back_by_a_command() -> None:
    live = Live()
    live.running["CurrentWeight"] = 5.0
    (found,) = live.find()
    assert (found.kind, found.resource, found.wanted) == ("drifted weight", "ranker/primary", 9)
    assert found.remedy.endswith(
        "--endpoint-name ranker --region us-east-1 "
        "--desired-weights-and-capacities VariantName=primary,DesiredWeight=9`"
    )
    live.running["VariantName"] = "another"
    assert live.named() == []  # named with the configuration


def find_drifted(live: Live, *counts: int | None) -> dict[int | None, Difference]:
    """Return each count that has drifted, with its difference. None: SageMaker shows none."""
    drifted = {}
    for count in counts:
        live.running.pop("CurrentInstanceCount", None)
        live.running |= {} if count is None else {"CurrentInstanceCount": count}
        for drifted[count] in live.find():
            assert drifted[count].kind == "drifted count"
    return drifted


def test_the_count_is_the_files_or_lies_in_the_bounds_of_scaling() -> None:
    found = find_drifted(Live(), 1, 2, 3, None)
    assert [*found] == [1, 3, None]
    for count, each in found.items():
        assert (each.key, each.wanted, each.found) == ("CurrentInstanceCount", 2, count)
        assert each.remedy.endswith("VariantName=primary,DesiredInstanceCount=2`")

    live = Live()
    live.scale()
    found = find_drifted(live, 0, 1, 4, 5)
    assert [*found] == [0, 5]
    for each in found.values():
        assert each.wanted == "1 to 4"
        assert each.remedy == "scaling hasn't restored it; check the scaling activities"

    # A schedule widens the bounds.
    live = Live()
    actions = [{"MinCapacity": 0}, {"MaxCapacity": 9}]
    live.scale(ScheduledActions=[{"ScalableTargetAction": action} for action in actions])
    assert [*find_drifted(live, 0, 9, 10)] == [10]

    managed = {"MinInstanceCount": 3, "MaxInstanceCount": 6}
    assert [*find_drifted(Live(ManagedInstanceScaling=managed), 2, 3, 6, 7)] == [2, 7]


def test_of_serverless_the_provisioned_concurrency_counts() -> None:
    def sizes(provisioned: int | None) -> dict[str, int]:
        found = {"MemorySizeInMB": 2048, "MaxConcurrency": 5}
        return found if provisioned is None else found | {"ProvisionedConcurrency": provisioned}

    for wanted, now, drifted in [(None, None, 0), (3, 3, 0), (3, 2, 1), (3, None, 1)]:
        live = Live(ServerlessConfig=sizes(wanted))
        live.running["CurrentServerlessConfig"] = sizes(now)
        found = [(each.key, each.remedy) for each in live.find()]
        assert found == [("ProvisionedConcurrency", RESTORE)] * drifted


def test_an_inference_component_is_compared_with_what_its_copies_run() -> None:
    live = Live()
    wanted: dict[str, Any] = {
        "ModelName": "by-hand", "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024}
    }  # fmt: skip
    named = {"InferenceComponentName": "ranker-a", "Specification": copy.deepcopy(wanted)}
    live.resources += [
        resource("SageMaker::InferenceComponent", "c", **named),
        resource("SageMaker::Model", "by-hand", PrimaryContainer=CONTAINER),
    ]
    assert live.named() == [("inference component missing", "ranker-a", "")]
    live.component = {"InferenceComponentStatus": "InService", "Specification": wanted}
    assert live.named() == []
    live.models["by-hand"]["PrimaryContainer"]["Image"] = "i:2.19"
    assert live.named() == [("model", "by-hand", "PrimaryContainer.Image")]
    assert list(compare_batch_models(live.stack())) == []
    del live.models["by-hand"]
    assert live.named() == [("model missing", "by-hand", "")]
    live.models["by-hand"] = MODEL
    live.component["InferenceComponentStatus"] = "Failed"
    (failed,) = live.find()
    assert (failed.found, failed.remedy) == ("Failed", "the reason: none is stated")
    live.component["InferenceComponentStatus"] = "InService"
    wanted["ComputeResourceRequirements"]["MinMemoryRequiredInMb"] = 2048
    key = "Specification.ComputeResourceRequirements.MinMemoryRequiredInMb"
    assert live.named() == [("inference component", "ranker-a", key)]

    # A variant that names no model, so that it hosts components which the stack did not create.
    live = Live()
    live.running["CurrentInstanceCount"] = 0
    del live.variant["ModelName"]
    assert [kind for kind, *_ in live.named()] == ["inference components"]


def test_the_fleet_of_a_pool_is_counted_by_type_with_the_preferred_one_first() -> None:
    live = Live(InstancePools=[{"InstanceType": "ml.m5.large", "Priority": 1},
                               {"InstanceType": "ml.c5.large", "Priority": 2}])  # fmt: skip

    def said(**counts: int) -> list[str]:
        pools = [
            {"InstanceType": f"ml.{kind}.large", "CurrentInstanceCount": count}
            for kind, count in counts.items()
        ]
        live.running.pop("InstancePools", None)
        live.running |= {"InstancePools": pools} if pools else {}
        return [each for each in compare_endpoints(live.stack()) if isinstance(each, str)]

    assert said(c5=0, m5=2) == ["primary runs on 2 x ml.m5.large, 0 x ml.c5.large"]
    (elsewhere,) = said(c5=1, m5=2)
    assert elsewhere.startswith(
        "primary runs on 2 x ml.m5.large, 1 x ml.c5.large: AWS had too few ml.m5.large when 1 of them"
    )
    live.resources[1].properties["ProductionVariants"][0].pop("InstancePools")
    assert said(c5=1) == ["primary runs on 1 x ml.c5.large"]
    assert said() == []
    live.endpoint = None
    assert said() == []
