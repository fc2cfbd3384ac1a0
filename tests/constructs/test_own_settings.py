"""Every property that an environment file has, and those that it lacks, is in an app's template."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template

from servable import constructs as own

RANKER = Path(__file__).resolve().parents[2] / "examples" / "ranker" / "model"
HERE = cdk.Environment(account="111111111111", region="eu-west-1")
TYPE = "ml.c5.xlarge"
Config = sagemaker.CfnEndpointConfig
SHA256 = "0123456789abcdef" * 4


def stack() -> cdk.Stack:
    return cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), "search", env=HERE)


def found(place: cdk.Stack, kind: str) -> list[dict[str, Any]]:
    resources = Template.from_stack(place).find_resources(kind)
    return [each["Properties"] for each in resources.values()]


def variant_of(
    add: Callable[[own.Endpoint, own.Model], object], model: own.Model | None = None
) -> dict[str, Any]:
    """Return the first variant of the endpoint configuration that `add` fills."""
    place = cdk.Stack.of(model) if model else stack()
    endpoint = own.Endpoint(place, "Endpoint", endpoint_name="search")
    add(endpoint, model or own.Model.from_saved_model(place, "Model", RANKER))
    (config,) = found(place, "AWS::SageMaker::EndpointConfig")
    return dict(config["ProductionVariants"][0])


def test_routing_shells_core_dumps_and_reservations_are_settings_of_a_variant() -> None:
    reservation = "arn:aws:sagemaker:eu-west-1:111111111111:training-plan/ranker"
    made = variant_of(
        lambda endpoint, model: endpoint.add_variant(
            "primary",
            model,
            instance_type=TYPE,
            settings=own.VariantSettings(
                routing="random",
                ssm_access=True,
                core_dumps=own.CoreDumps(uri="s3://dumps/search/"),
                startup_timeout_seconds=600,
            ),
            capacity_reservation=Config.CapacityReservationConfigProperty(
                capacity_reservation_preference="capacity-reservations-only",
                ml_reservation_arn=reservation,
            ),
        )
    )
    assert made["RoutingConfig"] == {"RoutingStrategy": "RANDOM"}
    assert made["EnableSSMAccess"] is True
    assert made["CoreDumpConfig"]["DestinationS3Uri"] == "s3://dumps/search/"
    assert made["ContainerStartupHealthCheckTimeoutInSeconds"] == 600
    assert made["CapacityReservationConfig"]["MlReservationArn"] == reservation


def test_a_variant_is_serverless_or_has_instance_pools() -> None:
    serverless = own.Serverless(memory_mib=2048, max_concurrency=5)
    settings = own.VariantSettings(serverless=serverless)
    made = variant_of(
        lambda endpoint, model: endpoint.add_variant("primary", model, settings=settings)
    )
    assert made["ServerlessConfig"] == {"MaxConcurrency": 5, "MemorySizeInMB": 2048}

    pools = [own.InstancePool(instance_type=kind) for kind in ("ml.g5.12xlarge", "ml.g5.xlarge")]
    place = stack()
    model = own.Model.from_saved_model(place, "Model", RANKER)
    made = variant_of(
        lambda endpoint, model: endpoint.add_variant(
            "primary", model, settings=own.VariantSettings(instance_pools=pools)
        ),
        model,
    )
    types = [each["InstanceType"] for each in made["InstancePools"]]
    assert types == ["ml.g5.12xlarge", "ml.g5.xlarge"]
    # Four GPUs need different settings than one, and both models have one role.
    assert len(found(place, "AWS::SageMaker::Model")) == 2
    assert len(found(place, "AWS::IAM::Role")) == 1


def test_pools_that_no_ami_fits_are_an_error_that_names_them() -> None:
    pools = [own.InstancePool(instance_type=kind) for kind in ("ml.g5.xlarge", "ml.c5.xlarge")]
    place = stack()
    endpoint = own.Endpoint(place, "Endpoint", endpoint_name="search")
    settings = own.VariantSettings(instance_pools=pools)
    endpoint.add_variant("a", own.Model.from_saved_model(place, "Model", RANKER), settings=settings)
    with pytest.raises(
        ValueError, match="instance_pools: no AMI supports all of .*; pass types of"
    ):
        endpoint.create()


def test_managed_instances_have_a_scale_in_policy() -> None:
    def add(endpoint: own.Endpoint, model: own.Model) -> None:
        primary = endpoint.add_variant(
            "primary",
            instance_type="ml.c6i.2xlarge",
            max_instances=2,
            scale_in_policy=Config.ScaleInPolicyProperty(
                strategy="IDLE_RELEASE", cooldown_in_minutes=30
            ),
        )
        primary.add_component("ranker", model, max_copies=2)
        primary.add_property_override("AcceleratorType", "ml.eia2.medium")

    made = variant_of(add)
    assert made["AcceleratorType"] == "ml.eia2.medium"
    scaling = made["ManagedInstanceScaling"]
    assert scaling["ScaleInPolicy"] == {"Strategy": "IDLE_RELEASE", "CooldownInMinutes": 30}
    assert (scaling["MinInstanceCount"], scaling["MaxInstanceCount"]) == (1, 2)


def served(place: cdk.Stack, model: own.Model) -> tuple[dict[str, Any], str]:
    """The container and the policies of a model, when a variant runs it."""
    variant_of(lambda endpoint, made: endpoint.add_variant("a", made, instance_type=TYPE), model)
    (resource,) = found(place, "AWS::SageMaker::Model")
    return resource["PrimaryContainer"], str(found(place, "AWS::IAM::Policy"))


@pytest.mark.long
def test_a_model_is_an_archive_or_a_registered_version() -> None:
    place = stack()
    archive = own.Model.from_archive(
        place, "Model", bucket="models", key="run-17/model.tar.gz", sha256=SHA256
    )
    container, policies = served(place, archive)
    assert container["ModelDataUrl"] == "s3://models/run-17/model.tar.gz"
    assert container["Environment"]["SERVABLE_ARTIFACT_SHA256"] == SHA256
    assert ":s3:::models/run-17/model.tar.gz" in policies

    place = stack()
    bucket = s3.Bucket(place, "Bucket")
    created = own.Model.from_archive(
        place, "Model", bucket=bucket, key="model.tar.gz", sha256=SHA256
    )
    assert "Bucket" in str(served(place, created)[0]["ModelDataUrl"])

    place, arn = stack(), "arn:aws:sagemaker:eu-west-1:222222222222:model-package/ranker/3"
    version = own.Model.from_registry(place, "Model", model_package_arn=arn)
    container, policies = served(place, version)
    assert container["ModelPackageName"] == arn
    assert "s3:GetObject" not in policies


def test_several_folders_are_a_model_in_multi_model_mode() -> None:
    place = stack()
    several = own.Model.from_saved_model(place, "Model", {"b": RANKER / "1", "a": RANKER / "1"})
    assert several.tables["model"].multi_model == ["b", "a"]
    assert served(place, several)[0]["Mode"] == "MultiModel"
    with pytest.raises(ValueError, match="model_name is also a folder's name; pass"):
        own.Model.from_saved_model(stack(), "Model", {"model": RANKER / "1"})


@pytest.mark.long
def test_an_override_changes_its_property_and_the_names_of_the_rollback_alarms() -> None:
    names, properties = [], []
    # The last one overrides a property of the resource itself.
    for value, of_resource in [
        (None, False),
        ("ml.eia2.medium", False),
        ("ml.eia2.large", False),
        ("ml.eia2.medium", True),
    ]:
        place = stack()
        endpoint = own.Endpoint(place, "Endpoint", endpoint_name="search")
        model = own.Model.from_saved_model(place, "Model", RANKER)
        endpoint.add_variant("a", model, instance_type=TYPE)
        primary = endpoint.add_variant("b", model, instance_type=TYPE)
        if value and not of_resource:
            primary.add_property_override("AcceleratorType", value)
        endpoint.roll_out(canary_percent=50)
        if of_resource:
            resource = endpoint.config.node.default_child
            assert isinstance(resource, Config)
            resource.add_property_override("ProductionVariants.1.AcceleratorType", value)
        alarms = found(place, "AWS::CloudWatch::Alarm")
        names.append(str(sorted(each["AlarmName"] for each in alarms)))
        (config,) = found(place, "AWS::SageMaker::EndpointConfig")
        properties.append([each.get("AcceleratorType") for each in config["ProductionVariants"]])
    medium = [None, "ml.eia2.medium"]
    assert properties == [[None, None], medium, [None, "ml.eia2.large"], medium]
    assert (len({*names}), names[3]) == (3, names[1])


def test_cdk_takes_an_endpoint_and_a_model_for_its_own_interfaces() -> None:
    place = stack()
    model = own.Model.from_saved_model(
        place, "Model", RANKER, network=own.ModelNetwork(vpc=ec2.Vpc(place, "Vpc", max_azs=2))
    )
    endpoint: sagemaker.IEndpoint = own.Endpoint(place, "Endpoint", endpoint_name="search")
    assert isinstance(endpoint, own.Endpoint)
    endpoint.add_variant("primary", model, instance_type=TYPE)
    bucket, group = s3.Bucket(place, "Bucket"), ec2.SecurityGroup(place, "Db", vpc=model_vpc(place))
    bucket.grant_read(model)
    group.connections.allow_from(model, ec2.Port.tcp(5432))
    endpoint.connections.allow_to(group, ec2.Port.tcp(5433))
    role = iam.Role(place, "Caller", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    endpoint.grant_invoke(role)
    assert isinstance(endpoint, cdk.Resource)
    assert ":endpoint/search" in str(place.resolve(endpoint.endpoint_ref.endpoint_arn))
    rules = found(place, "AWS::EC2::SecurityGroupIngress")
    assert sorted(rule["FromPort"] for rule in rules) == [5432, 5433]
    other = own.Endpoint.from_endpoint_name(place, "Other", "other")
    assert other.grant_invoke(role).success


def model_vpc(place: cdk.Stack) -> ec2.Vpc:
    vpc = place.node.find_child("Vpc")
    assert isinstance(vpc, ec2.Vpc)
    return vpc


def test_components_are_invoked_by_callers_that_were_granted_before() -> None:
    place = stack()
    endpoint = own.Endpoint(place, "Endpoint", endpoint_name="search")
    role = iam.Role(place, "Caller", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    endpoint.grant_invoke(role)
    primary = endpoint.add_variant("primary", instance_type="ml.c6i.2xlarge")
    primary.add_component("ranker", own.Model.from_saved_model(place, "Model", RANKER))
    policies = Template.from_stack(place).find_resources("AWS::IAM::Policy")
    (policy,) = [each for name, each in policies.items() if name.startswith("Caller")]
    assert ":inference-component/search-ranker" in str(policy)


def test_an_argument_and_a_setting_are_one_table() -> None:
    place = stack()
    endpoint = own.Endpoint(place, "Endpoint", endpoint_name="search")
    endpoint.add_variant(
        "a", own.Model.from_saved_model(place, "Model", RANKER), instance_type=TYPE
    )
    endpoint.roll_out(bake_minutes=7, settings=own.Rollout(strategy="linear", step_percent=50))
    settings = own.Alarms(error_5xx_percent=2)
    endpoint.add_alarms(notify=sns.Topic(place, "T"), p99_latency_ms=80, settings=settings)
    (resource,) = found(place, "AWS::SageMaker::Endpoint")
    update = resource["DeploymentConfig"]["BlueGreenUpdatePolicy"]
    routing = update["TrafficRoutingConfiguration"]
    assert (routing["Type"], routing["WaitIntervalInSeconds"]) == ("LINEAR", 420)
    alarms = {
        each["AlarmName"]: each["Threshold"] for each in found(place, "AWS::CloudWatch::Alarm")
    }
    assert alarms["search-a-p99-latency"] == 80_000
    assert alarms["search-a-5xx"] == 0.02
