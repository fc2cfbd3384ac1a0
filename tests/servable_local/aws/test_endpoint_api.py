"""SageMaker's API of an endpoint in service: tags, weights, capacities, listings and refusals."""

from typing import Any

import pytest

from servable_local.aws.clock import TICK_SECONDS, ManualClock
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account, refused


@pytest.fixture(scope="module")
def sagemaker(accounts: Account) -> Any:
    account = accounts.another()
    account.deploy(serving(account.put_archive(b"a")))
    return account.client("sagemaker")


def variant(sagemaker: Any) -> dict[str, Any]:
    (found,) = sagemaker.describe_endpoint(EndpointName="ranker")["ProductionVariants"]
    return dict(found)


def test_an_endpoint_and_its_model_are_listed_and_its_tags_replaced(sagemaker: Any) -> None:
    arn = sagemaker.describe_endpoint(EndpointName="ranker")["EndpointArn"]
    sagemaker.add_tags(
        ResourceArn=arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    )
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "3"}])
    added = {tag["Key"]: tag["Value"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]}
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["a", "absent"])
    kept = [tag["Key"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]]
    assert (added["a"], added["b"], "a" in kept, "b" in kept) == ("3", "2", False, True)

    group = sagemaker.create_model_package_group(ModelPackageGroupName="ranker")
    arn = group["ModelPackageGroupArn"]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "1"}])
    added = sagemaker.list_tags(ResourceArn=arn)["Tags"]
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["a"])
    left = sagemaker.list_tags(ResourceArn=arn)["Tags"]
    assert (added, left) == ([{"Key": "a", "Value": "1"}], [])

    (found,) = sagemaker.list_endpoints()["Endpoints"]
    assert (found["EndpointName"], found["EndpointStatus"]) == ("ranker", "InService")
    assert found["EndpointArn"].endswith(":endpoint/ranker")
    assert "Could not find endpoint" in refused(sagemaker.describe_endpoint, EndpointName="absent")
    (model,) = sagemaker.list_models()["Models"]
    shown = sagemaker.describe_model(ModelName=model["ModelName"])
    again = {key: shown[key] for key in ("ModelName", "ExecutionRoleArn", "PrimaryContainer")}
    assert "already existing model" in refused(sagemaker.create_model, **again)


def test_a_variants_weight_is_changed(sagemaker: Any, clock: ManualClock) -> None:
    change = {"VariantName": "primary", "DesiredWeight": 0.25}
    update = sagemaker.update_endpoint_weights_and_capacities
    update(EndpointName="ranker", DesiredWeightsAndCapacities=[change])
    described = sagemaker.describe_endpoint(EndpointName="ranker")
    assert (described["EndpointStatus"], described.get("PendingDeploymentSummary")) == (
        "Updating",
        None,
    )
    clock.advance(seconds=TICK_SECONDS)
    found = variant(sagemaker)
    assert (found["CurrentWeight"], found["CurrentInstanceCount"]) == (0.25, 2)
    assert sagemaker.describe_endpoint(EndpointName="ranker")["EndpointStatus"] == "InService"
    change = {"VariantName": "absent", "DesiredWeight": 1}
    message = refused(update, EndpointName="ranker", DesiredWeightsAndCapacities=[change])
    assert message == "Variant absent does not exist."
