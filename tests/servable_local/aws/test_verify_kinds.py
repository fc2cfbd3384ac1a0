"""`servable verify` on endpoints of every kind: nothing when fresh, and what was changed by its name."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from servable.verify.difference import Difference, Report
from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.verified_kind import VerifiedKind, written

pytestmark = pytest.mark.long

Plant = Callable[[VerifiedKind], None]


def target(deployed: VerifiedKind, what: str = "DesiredInstanceCount") -> dict[str, str]:
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{deployed.endpoint}/variant/primary",
        "ScalableDimension": f"sagemaker:variant:{what}",
    }


def more_memory(deployed: VerifiedKind) -> None:
    config = deployed.config()
    config["ProductionVariants"][0]["ServerlessConfig"]["MemorySizeInMB"] = 6144
    deployed.replace_config(config)


def other_schedule(deployed: VerifiedKind) -> None:
    scaling, where = deployed.client("application-autoscaling"), target(deployed, PROVISIONED)
    scaling.delete_scheduled_action(ScheduledActionName="Scheduled0", **where)
    scaling.put_scheduled_action(
        ScheduledActionName="mine",
        Schedule="rate(1 day)",
        ScalableTargetAction={"MaxCapacity": 3},
        **where,
    )
    scaling.register_scalable_target(MaxCapacity=40, **where)
    config = deployed.config()
    config["ProductionVariants"][0]["ServerlessConfig"]["ProvisionedConcurrency"] = 9
    deployed.replace_config(config)


def heavier_shadow(deployed: VerifiedKind) -> None:
    deployed.account.change_capacities(
        deployed.endpoint, VariantName="next", DesiredWeight=1.0, DesiredInstanceCount=3
    )
    deployed.client("cloudwatch").delete_alarms(AlarmNames=[f"{deployed.endpoint}-next-5xx"])


def no_shadow(deployed: VerifiedKind) -> None:
    config = deployed.config()
    del config["ShadowProductionVariants"]
    deployed.replace_config(config)


def another_queue(deployed: VerifiedKind) -> None:
    config = deployed.config()
    config["AsyncInferenceConfig"]["ClientConfig"]["MaxConcurrentInvocationsPerInstance"] = 9
    config["AsyncInferenceConfig"]["OutputConfig"]["NotificationConfig"].pop("ErrorTopic")
    deployed.replace_config(config)
    scaling = deployed.client("application-autoscaling")
    for policy in scaling.describe_scaling_policies(ServiceNamespace="sagemaker")[
        "ScalingPolicies"
    ]:
        if policy["PolicyType"] == "StepScaling":
            scaling.delete_scaling_policy(PolicyName=policy["PolicyName"], **target(deployed))
    s3 = deployed.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        if bucket["Name"] != deployed.bucket:
            s3.put_bucket_versioning(
                Bucket=bucket["Name"], VersioningConfiguration={"Status": "Suspended"}
            )
            s3.delete_public_access_block(Bucket=bucket["Name"])
            s3.delete_bucket_policy(Bucket=bucket["Name"])
            s3.delete_bucket_encryption(Bucket=bucket["Name"])


def other_models(deployed: VerifiedKind) -> None:
    s3, keys = deployed.client("s3"), deployed.keys
    s3.put_object(Bucket=deployed.bucket, Key=keys["berlin"], Body=b"another")
    s3.delete_object(Bucket=deployed.bucket, Key=keys["paris"])
    deployed.client("application-autoscaling").put_scaling_policy(
        PolicyName="mine",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 5.0,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
            },
        },
        **target(deployed),
    )


PROVISIONED = "DesiredProvisionedConcurrency"
GOLDEN = {
    "serverless": ("ranker",),
    "serverless-warm": ("ranker",),
    "shadow": ("ranker", "next"),
    "asynchronous": ("ranker",),
    "multi-model": ("berlin",),
}
MEMORY = "ProductionVariants[primary].ServerlessConfig.MemorySizeInMB"
QUEUE = "AsyncInferenceConfig"
# kind, what is done by hand, and a difference that it must be told as.
PLANTED: list[tuple[str, Plant, str, str]] = [
    ("serverless", more_memory, "silent rollback", "EndpointConfigName"),
    ("serverless", more_memory, "endpoint configuration", MEMORY),
    ("serverless-warm", other_schedule, "scheduled action missing", ""),
    ("serverless-warm", other_schedule, "scaling by hand", "mine"),
    ("serverless-warm", other_schedule, "scaling bounds", "MaxCapacity"),
    ("serverless-warm", other_schedule, "drifted count", "ProvisionedConcurrency"),
    ("shadow", heavier_shadow, "drifted weight", "CurrentWeight"),
    ("shadow", heavier_shadow, "drifted count", "CurrentInstanceCount"),
    ("shadow", heavier_shadow, "alarm missing", ""),
    ("shadow", no_shadow, "endpoint configuration", "ShadowProductionVariants"),
    ("asynchronous", another_queue, "endpoint configuration", f"{QUEUE}.ClientConfig"),
    ("asynchronous", another_queue, "endpoint configuration", f"{QUEUE}.OutputConfig"),
    ("asynchronous", another_queue, "scaling policy missing", ""),
    ("asynchronous", another_queue, "bucket versioning", "Status"),
    ("asynchronous", another_queue, "bucket open to the public", "BlockPublicAcls"),
    ("asynchronous", another_queue, "bucket encryption", "ApplyServerSideEncryptionByDefault"),
    ("asynchronous", another_queue, "S3 BucketPolicy missing", ""),
    ("multi-model", other_models, "artefact changed", "sha256"),
    ("multi-model", other_models, "artefact missing", ""),
    ("multi-model", other_models, "scaling by hand", "mine"),
]
DeployedNames = Callable[[str], tuple[VerifiedKind, Report]]
Planted = Callable[[str, Plant], list[Difference]]


@pytest.fixture(scope="module")
def fresh(
    embedded: LocalAws, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> DeployedNames:
    """One deployment of each kind, and what is found in it before anything is done to it."""

    @functools.cache
    def deployed(kind: str) -> tuple[VerifiedKind, Report]:
        loaded = written(tmp_path_factory.mktemp(kind), kind, GOLDEN[kind])
        made = VerifiedKind(embedded, launcher, loaded)
        return made, made.report()

    return deployed


@pytest.fixture(scope="module")
def planted(fresh: DeployedNames) -> Planted:
    """What is found after each plant; those of one kind one after the other, as they are listed."""

    @functools.cache
    def all_of(kind: str) -> dict[Plant, list[Difference]]:
        deployed, _ = fresh(kind)
        found = {}
        for plant in dict.fromkeys(one[1] for one in PLANTED if one[0] == kind):
            plant(deployed)
            found[plant] = deployed.report().differences
        return found

    return lambda kind, plant: all_of(kind)[plant]


@pytest.mark.parametrize("kind", GOLDEN)
def test_a_fresh_deployment_has_no_difference(fresh: DeployedNames, kind: str) -> None:
    assert [str(difference) for difference in fresh(kind)[1].differences] == []
    assert not [note for note in fresh(kind)[1].notes if "golden" in note]


@pytest.mark.parametrize("case", PLANTED, ids=lambda case: f"{case[0]}: {case[2]} {case[3]}")
def test_a_planted_difference_is_named(planted: Planted, case: Any) -> None:
    kind, plant, name, key = case
    assert any(one.kind == name and one.key.startswith(key) for one in planted(kind, plant)), (
        planted(kind, plant)
    )
