"""`servable verify` on endpoints of every kind: nothing when fresh, and what was changed by its name."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from servable.pin.command import PinError, read_approved_package
from tests.servable_local.aws.boto_members import SCALING, scalable, tracking
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.verified import REGION, Deployed, written

pytestmark = pytest.mark.long

Plant = Callable[[Deployed], None]


def target(deployed: Deployed, counts: str = "InstanceCount") -> dict[str, str]:
    resource = f"endpoint/{deployed.endpoint}/variant/primary"
    return scalable(counts=counts) | {"ResourceId": resource}


def more_memory(deployed: Deployed) -> None:
    config = deployed.config()
    config["ProductionVariants"][0]["ServerlessConfig"]["MemorySizeInMB"] = 6144
    deployed.replace_config(config)


def other_schedule(deployed: Deployed) -> None:
    scaling, where = deployed.client(SCALING), target(deployed, "ProvisionedConcurrency")
    scaling.delete_scheduled_action(ScheduledActionName="Scheduled0", **where)
    mine = {"Schedule": "rate(1 day)", "ScalableTargetAction": {"MaxCapacity": 3}}
    scaling.put_scheduled_action(ScheduledActionName="mine", **mine, **where)
    scaling.register_scalable_target(MaxCapacity=40, **where)
    config = deployed.config()
    config["ProductionVariants"][0]["ServerlessConfig"]["ProvisionedConcurrency"] = 9
    deployed.replace_config(config)


def heavier_shadow(deployed: Deployed) -> None:
    change = {"VariantName": "next", "DesiredWeight": 1.0, "DesiredInstanceCount": 3}
    deployed.account.change_capacities(deployed.endpoint, **change)
    deployed.client("cloudwatch").delete_alarms(AlarmNames=[f"{deployed.endpoint}-next-5xx"])


def no_shadow(deployed: Deployed) -> None:
    config = deployed.config()
    del config["ShadowProductionVariants"]
    deployed.replace_config(config)


def another_queue(deployed: Deployed) -> None:
    config = deployed.config()
    config["AsyncInferenceConfig"]["ClientConfig"]["MaxConcurrentInvocationsPerInstance"] = 9
    config["AsyncInferenceConfig"]["OutputConfig"]["NotificationConfig"].pop("ErrorTopic")
    deployed.replace_config(config)
    scaling = deployed.client(SCALING)
    policies = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    for policy in policies:
        if policy["PolicyType"] == "StepScaling":
            scaling.delete_scaling_policy(PolicyName=policy["PolicyName"], **target(deployed))
    s3, suspended = deployed.client("s3"), {"Status": "Suspended"}
    for bucket in s3.list_buckets()["Buckets"]:
        if (name := bucket["Name"]) != deployed.bucket:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=suspended)
            s3.delete_public_access_block(Bucket=name)
            s3.delete_bucket_policy(Bucket=name)
            s3.delete_bucket_encryption(Bucket=name)


def other_models(deployed: Deployed) -> None:
    deployed.put(deployed.keys["berlin"], b"another")
    deployed.client("s3").delete_object(Bucket=deployed.bucket, Key=deployed.keys["paris"])
    mine = {"PolicyName": "mine", "PolicyType": "TargetTrackingScaling", **target(deployed)}
    put = deployed.client(SCALING).put_scaling_policy
    put(TargetTrackingScalingPolicyConfiguration=tracking(5.0), **mine)


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


@pytest.mark.parametrize("kind", GOLDEN)
def test_a_fresh_deployment_has_no_difference_and_every_planted_one_is_named(
    account: Account, tmp_path: Path, kind: str
) -> None:
    deployed = Deployed(account, written(tmp_path, kind, GOLDEN[kind]))
    report = deployed.report()
    assert [str(difference) for difference in report.differences] == []
    assert not [note for note in report.notes if "golden" in note]
    planted = [one[1:] for one in PLANTED if one[0] == kind]
    for plant in dict.fromkeys(plant for plant, _, _ in planted):
        plant(deployed)
        found = deployed.report().differences
        for way, name, key in planted:
            if way is plant:
                assert any(one.kind == name and one.key.startswith(key) for one in found), found


def test_where_the_first_type_is_not_to_be_had_the_next_serves_and_is_freed_first(
    account: Account, tmp_path: Path
) -> None:
    types = ("ml.c5.xlarge", "ml.c5d.xlarge", "ml.m5.xlarge")
    loaded = written(tmp_path, "instance-pools", ("ranker",))
    deployed = Deployed(account, loaded, types[0])

    def counts() -> list[int]:
        described = deployed.client("sagemaker").describe_endpoint(EndpointName=deployed.endpoint)
        pools = described["ProductionVariants"][0]["InstancePools"]
        found = {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in pools}
        return [found[kind] for kind in types]

    def scaled(count: int, *short: str) -> list[int]:
        account.aws.no_capacity(*short, account=account.number, region=REGION)
        change = {"VariantName": "primary", "DesiredInstanceCount": count}
        account.change_capacities(deployed.endpoint, **change)
        return counts()

    assert counts() == [0, 2, 0]
    report = deployed.report()
    assert [str(difference) for difference in report.differences] == []
    said = "primary runs on 0 x {}, 2 x {}, 0 x {}: AWS had too few".format(*types)
    assert any(note.startswith(said) for note in report.notes)
    assert str(report.patchable).startswith("yes")

    assert [scaled(4), scaled(3), scaled(1)] == [[2, 2, 0], [2, 1, 0], [1, 0, 0]]
    assert scaled(2, types[0]) == [1, 1, 0]
    assert scaled(3, *types) == [1, 1, 0]


# --- a model of the registry, and one of another account under customer keys

BODY = b"an archive that was packed elsewhere"


def real(text: str) -> str:
    """The file with the hash of what is there; the first version of a group is 1."""
    return text.replace("a" * 64, hashlib.sha256(BODY).hexdigest()).replace("ranker/7", "ranker/1")


class VerifiedArtifact(Deployed):
    """What another one has packed, and registered, is there before the deployment."""

    def publish(self) -> None:
        artifact = self.loaded.environment.models["ranker"].artifact
        assert artifact is not None
        self.uri = artifact.uri.replace("111111111111", self.account.number)
        bucket, _, key = self.uri.removeprefix("s3://").partition("/")
        self.client("s3").create_bucket(Bucket=bucket)
        self.client("s3").put_object(Bucket=bucket, Key=key, Body=BODY)
        self.package = self.account.register_version({"Image": IMAGE, "ModelDataUrl": self.uri})

    def judged(self, status: str) -> None:
        self.client("sagemaker").update_model_package(
            ModelPackageArn=self.package, ModelApprovalStatus=status
        )


@pytest.mark.parametrize("kind", ["registry", "customer-keys"])
def test_what_was_packed_elsewhere_is_verified_and_pinned_once_it_is_approved(
    account: Account, tmp_path: Path, kind: str
) -> None:
    deployed = VerifiedArtifact(account, written(tmp_path, kind, ("ranker",), real))
    sagemaker = deployed.client("sagemaker")
    assert deployed.report().differences == []
    assert read_approved_package(sagemaker, deployed.package) == (deployed.uri, IMAGE)
    with pytest.raises(PinError, match="cannot be read"):
        read_approved_package(sagemaker, deployed.package + "0")
    for status in ["Rejected", "PendingManualApproval"]:
        deployed.judged(status)
        with pytest.raises(PinError, match=f"ModelApprovalStatus is {status}; allowed: Approved"):
            read_approved_package(sagemaker, deployed.package)
    expected = ["model package"] if kind == "registry" else []
    assert [difference.kind for difference in deployed.report().differences] == expected
