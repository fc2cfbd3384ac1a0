"""What creates, updates, tags and scales an endpoint, by its state: without a server, and one in service."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servable_local.aws.clock import TICK_SECONDS, ManualClock
from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.hosting import Register, StoredDefinition
from servable_local.aws.scaling.service import INSTANCES, RegionalScaling
from servable_scaling.scalable_target import ScaledTarget
from tests.servable_local.aws.boto_members import scalable, tracking
from tests.servable_local.aws.endpoint_case import ALL_AT_ONCE, CANARY, Case, blue_green
from tests.servable_local.aws.local_account import Account, refused

VARIANT = {"VariantName": "primary", "DesiredWeight": 0.5, "DesiredInstanceCount": 3}


class Hosted:
    """An account whose only endpoint is the case's, with the configurations `first` and `second`."""

    def __init__(self, case: Case) -> None:
        self.case = case
        configs = Register[StoredDefinition]("endpoint configuration", "arn:{}".format)
        endpoints = Register[Any]("endpoint", "arn:{}".format)
        endpoints["ranker"] = case.endpoint
        for name in ("first", "second"):
            variants = [{"VariantName": "primary"}]
            request = {"EndpointConfigName": name, "ProductionVariants": variants}
            configs[name] = StoredDefinition("EndpointConfig", name, request, case.clock.now())
        self.scalable: list[str] = []

        def describe(ServiceNamespace: str) -> Any:  # noqa: N803
            return {"ScalableTargets": [{"ResourceId": name} for name in self.scalable]}

        client = SimpleNamespace(describe_scalable_targets=describe)
        self.here: Any = SimpleNamespace(
            endpoints=endpoints,
            list_components=lambda endpoint: [],
            configs=configs,
            tags={},
            aws=SimpleNamespace(client=lambda service: client),
        )

    def call(self, operation: str, **given: Any) -> None:
        here, request = self.here, {"EndpointName": "ranker", **given}

        class Asked(SageMakerApi):
            def __init__(self) -> None:
                pass

            @property
            def hosting(self) -> Any:
                return here

            def _read_request(self) -> dict[str, Any]:
                return request

        getattr(Asked(), operation)()

    def refusal(self, operation: str, **given: Any) -> str:
        with pytest.raises(SageMakerError) as caught:
            self.call(operation, **given)
        return str(caught.value.message)

    def update(self, **given: Any) -> None:
        self.call("update_endpoint", EndpointConfigName="second", **given)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path).created()


@pytest.fixture
def hosted(case: Case) -> Hosted:
    return Hosted(case)


def test_an_endpoint_that_cannot_be_is_not_made(hosted: Hosted) -> None:
    message = hosted.refusal("create_endpoint", EndpointName="Ranker", EndpointConfigName="first")
    assert message == 'Cannot create already existing endpoint "arn:Ranker".'
    message = hosted.refusal("create_endpoint", EndpointName="b", EndpointConfigName="absent")
    assert message == 'Could not find endpoint configuration "arn:absent".'


def test_an_endpoint_in_progress_takes_no_change(hosted: Hosted, tmp_path: Path) -> None:
    failed = Case(tmp_path)
    failed.error = RuntimeError("x")
    failed.created()
    hosted.case.update(blue_green(ALL_AT_ONCE))
    weighed = {"DesiredWeightsAndCapacities": [VARIANT]}
    messages = {
        hosted.refusal("update_endpoint", EndpointConfigName="second"),
        hosted.refusal("update_endpoint_weights_and_capacities", **weighed),
        Hosted(failed).refusal("update_endpoint_weights_and_capacities", **weighed),
    }
    assert messages == {'Cannot update in-progress endpoint "arn:ranker".'}


def test_weights_and_counts_are_set_for_shadows_too(hosted: Hosted) -> None:
    changes = [VARIANT, {"VariantName": "shadow", "DesiredWeight": 0.25}]
    hosted.call("update_endpoint_weights_and_capacities", DesiredWeightsAndCapacities=changes)
    shown = hosted.case.fleet.list_variants()
    variants = [(one.name, one.weight, one.instances.desired) for one in shown]
    assert variants == [("primary", 0.5, 3), ("shadow", 0.25, 4)]


def test_an_update_retains_the_deployment_configuration_where_it_is_asked_to_and_has_none(
    hosted: Hosted,
) -> None:
    cases: list[tuple[bool, dict[str, Any] | None, dict[str, Any] | None]] = [
        (True, None, CANARY),
        (False, None, None),
        (True, ALL_AT_ONCE, ALL_AT_ONCE),
    ]
    for retain, given, kept in cases:
        hosted = Hosted(hosted.case.another())
        hosted.case.endpoint.deployment_config = blue_green(CANARY)
        more = {"DeploymentConfig": blue_green(given)} if given else {}
        hosted.update(RetainDeploymentConfig=retain, **more)
        assert hosted.case.endpoint.deployment_config == (blue_green(kept) if kept else None)


def test_an_update_retains_weights_and_counts_but_for_what_is_excluded(hosted: Hosted) -> None:
    retained: dict[str, Any] = {"RetainAllVariantProperties": True}
    but_weights = {"ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DesiredWeight"}]}
    cases = [(dict[str, Any](), (1.0, 4)), (retained, (0.5, 3)), (retained | but_weights, (1.0, 3))]
    for given, kept in cases:
        hosted = Hosted(hosted.case.another())
        endpoint = hosted.case.endpoint
        hosted.call("update_endpoint_weights_and_capacities", DesiredWeightsAndCapacities=[VARIANT])
        assert endpoint.status == "Updating"
        endpoint.tick(hosted.case.clock.now())
        assert endpoint.status == "InService"
        hosted.update(**given)
        variant = hosted.case.fleet.variants["primary"]
        assert hosted.case.fleet.config_name == "second"
        assert (variant.weight, variant.instances.desired) == kept


def test_a_scaled_variant_keeps_its_type(hosted: Hosted) -> None:
    second = hosted.here.configs.find("second").request
    hosted.scalable = ["endpoint/ranker/variant/primary"]
    for change in ({"VariantName": "other"}, {"InstanceType": "ml.c5.xlarge"}):
        second["ProductionVariants"] = [{"VariantName": "primary", **change}]
        message = hosted.refusal("update_endpoint", EndpointConfigName="second")
        assert message.startswith('The variant(s) "[primary]" must be deregistered as scalable')
    hosted.scalable = ["endpoint/another/variant/primary"]
    hosted.update()
    assert hosted.case.endpoint.config["EndpointConfigName"] == "second"


# --- definitions of the account
def test_a_definition_is_found_in_any_case_of_its_name() -> None:
    models = Register[StoredDefinition]("model", "arn:{}".format)
    arn = models.name_new("Ranker")
    models["ranker"] = StoredDefinition("Model", arn, {"ModelName": "Ranker"}, datetime(2026, 1, 1))
    shown = models.find("RANKER").describe()
    assert (shown["ModelArn"], shown["ModelName"]) == ("arn:Ranker", "Ranker")
    with pytest.raises(SageMakerError) as caught:
        models.name_new("RANKER")
    assert caught.value.message == 'Cannot create already existing model "arn:RANKER".'
    with pytest.raises(SageMakerError) as caught:
        models.find("absent")
    assert caught.value.message == 'Could not find model "arn:absent".'


# --- what scales the endpoint
class Scaled:
    """The endpoint's variant as a scalable target."""

    key = ("sagemaker", "endpoint/ranker/variant/primary", INSTANCES)

    def __init__(self, case: Case) -> None:
        self.case = case
        aws: Any = SimpleNamespace(account="123456789012", region="eu-west-1")
        hosting: Any = SimpleNamespace(endpoints={"ranker": case.endpoint})
        self.scaling = RegionalScaling(aws, hosting, CloudWatch(aws, case.clock))
        target = ScaledTarget(self.key[1], self.key[2], 1, 6, service=self.key[0])
        self.registered = self.scaling.add_target(self.key, target, "role")

    def put_policy(self, arn: str = "arn:policy") -> None:
        given = {"PolicyName": "track", "PolicyType": "TargetTrackingScaling", **scalable()}
        configured = {"TargetTrackingScalingPolicyConfiguration": tracking(4)}
        self.scaling.put_policy(arn, self.key, given | configured)


@pytest.fixture
def scaled(case: Case) -> Scaled:
    return Scaled(case)


def test_a_policy_is_put_again_deleted_and_goes_with_its_target(scaled: Scaled) -> None:
    scaled.put_policy()
    first = scaled.scaling.policies["arn:policy"]
    scaled.case.clock.advance(minutes=5)
    scaled.put_policy()
    second = scaled.scaling.policies["arn:policy"]
    alarms = [alarm["AlarmName"] for alarm in scaled.scaling.list_alarms("arn:policy")]
    assert second.shown["CreationTime"] == first.shown["CreationTime"]
    assert (sorted(alarms), set(first.alarms) & set(alarms)) == (sorted(second.alarms), set())

    scaled.put_policy()
    before = list(scaled.registered.scaler.policies)
    scaled.scaling.delete_policy("arn:policy")
    assert (before, scaled.registered.scaler.policies) == (["arn:policy"], {})

    scaled.put_policy()
    scaled.scaling.deregister(scaled.key)
    assert (scaled.scaling.policies, scaled.scaling.targets) == ({}, {})


def test_a_target_is_moved_inside_its_bounds_or_has_failed(scaled: Scaled) -> None:
    scaled.registered.scaler.register(1, 2, scaled.registered.scaler.target.suspended)
    scaled.scaling.enforce_bounds(scaled.key)
    shown = scaled.scaling.activities[-1][1].describe("1")
    assert shown["Description"] == "Setting desired instance count to 2."

    scaled = Scaled(scaled.case.another())
    scaler, at = scaled.registered.scaler, scaled.scaling.now()
    scaler.register(1, 2, scaler.target.suspended)
    resource = scaled.scaling._build_resource(scaled.key)
    assert resource is not None
    decision = scaler.move_inside_bounds(at, resource)
    scaled.case.update(blue_green(ALL_AT_ONCE))
    scaled.scaling._carry_out(scaled.key, scaler, decision, at)
    shown = scaled.scaling.activities[-1][1].describe("1")
    assert "Cannot update in-progress endpoint" in shown["StatusMessage"]

    scaled = Scaled(scaled.case.another())
    scaled.case.update(blue_green(ALL_AT_ONCE))
    resource = scaled.scaling._build_resource(scaled.key)
    assert resource is not None
    assert (resource.updating, resource.desired, resource.current) == (True, 4, 4)


def test_what_serves_nothing_is_not_scaled(scaled: Scaled, tmp_path: Path) -> None:
    find = scaled.scaling._find_variant
    hosted = find(("sagemaker", "endpoint/RANKER/variant/shadow", INSTANCES))
    assert hosted is not None
    assert hosted[1].name == "shadow"
    for key in [
        ("sagemaker", "inference-component/a", "sagemaker:inference-component:DesiredCopyCount"),
        ("dynamodb", "table/a", "dynamodb:table:ReadCapacityUnits"),
        ("sagemaker", "endpoint/absent/variant/primary", INSTANCES),
        ("sagemaker", "endpoint/ranker/variant/absent", INSTANCES),
    ]:
        assert find(key) is None
    assert Scaled(Case(tmp_path)).scaling._find_variant(Scaled.key) is None


@pytest.fixture
def sagemaker(ranker: Account) -> Any:
    return ranker.client("sagemaker")


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
    assert described["EndpointStatus"] == "Updating"
    assert "PendingDeploymentSummary" not in described
    clock.advance(seconds=TICK_SECONDS)
    found = variant(sagemaker)
    assert (found["CurrentWeight"], found["CurrentInstanceCount"]) == (0.25, 2)
    assert sagemaker.describe_endpoint(EndpointName="ranker")["EndpointStatus"] == "InService"
    change = {"VariantName": "absent", "DesiredWeight": 1}
    message = refused(update, EndpointName="ranker", DesiredWeightsAndCapacities=[change])
    assert message == "Variant absent does not exist."
