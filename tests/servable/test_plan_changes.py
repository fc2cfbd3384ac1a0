"""How two templates of a stack are compared, and which states of a stack and endpoint take no deploy."""

import argparse
import shlex
from dataclasses import replace
from typing import Any

import pytest

from infra.parameters.loading import ValidFile, build_deployed_variants
from infra.policy.update import DeployedVariant
from servable.plan import template_changes
from servable.plan.live import LiveState, TakenName
from servable.plan.plan import DeployPlan, build_plan
from servable.plan.template_changes import LONGEST_SHOWN, list_changes
from tests.conftest import VALID, Environment, valid


def one(properties: dict[str, Any], kind: str = "SageMaker::Model", **more: Any) -> dict[str, Any]:
    return {"Resources": {"One": {"Type": f"AWS::{kind}", "Properties": properties, **more}}}


def listed(
    before: dict[str, Any], after: dict[str, Any]
) -> list[tuple[str, str | None, str | None]]:
    return [(change.what, change.before, change.after) for change in list_changes(before, after)]


def test_properties_and_elements_of_lists_are_told_apart_by_their_names() -> None:
    a, b = {"Key": "a"}, {"Key": "b"}
    cases: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str | None, str | None]]]] = [
        ({"A": {"B": {"C": 1, "D": 2}}}, {"A": {"B": {"C": 3, "D": 2}}}, [("A.B.C", "1", "3")]),
        ({}, {"A": {"Value": 1}}, [("A.Value", None, "1")]),
        ({"L": [a, b]}, {"L": [b, a]}, []),
        ({"L": [1, {"V": 2}]}, {"L": [1]}, [("L", '[1, {"V": 2}]', "[1]")]),
        ({"L": []}, {"L": [a]}, [("L[a].Key", None, "a")]),
    ]
    for key in ["VariantName", "VariantPropertyType", "Key", "Name", "Id", "AlarmName"]:
        was, now = ([{key: "a", "V": value}, {key: "b", "V": 1}] for value in (1, 2))
        cases.append(({"L": was}, {"L": now}, [("L[a].V", "1", "2")]))
    for before, after, changes in cases:
        assert listed(one(before), one(after)) == changes
    found = listed(one({"B": 1, "A": 1, "C": 1}), one({"C": 2, "A": 2, "B": 2}))
    assert [what for what, *_ in found] == ["A", "B", "C"]


def test_values_are_shown_as_a_reader_of_a_template_writes_them() -> None:
    cases: list[tuple[Any, str]] = [
        ({"Ref": "Bucket"}, "Bucket"),
        ({"Fn::GetAtt": ["Model", "Arn"]}, '["Model", "Arn"]'),
        ({"Fn::Join": ["", ["s3://", {"Ref": "Bucket"}, "/a"]]}, "s3://${Bucket}/a"),
        ({"Fn::Join": ["-", ["a", "b"]]}, "a-b"),
        ({"Fn::Join": ["-", {"Ref": "List"}]}, '["-", {"Ref": "List"}]'),
        (True, "true"),
        ("x" * LONGEST_SHOWN, "x" * LONGEST_SHOWN),
        ("b" + "x" * LONGEST_SHOWN, "…" + "x" * LONGEST_SHOWN),
    ]
    for value, shown in cases:
        assert listed(one({}), one({"A": value})) == [("A", None, shown)]

    key, variable = "container.gunicorn_workers", "SAGEMAKER_GUNICORN_WORKERS"
    old, new = (one({"C": {"Environment": {variable: text, "OWN": text}}}) for text in "24")
    assert [str(change) for change in list_changes(old, new)] == [
        "SageMaker::Model: C.Environment.OWN: 2 -> 4",
        f"SageMaker::Model: C.Environment.{variable} ({key}): 2 -> 4",
    ]


def test_new_resources_are_counted_by_type_and_policies_of_deletion_are_properties() -> None:
    def topics(*names: str, display: str = "") -> dict[str, Any]:
        kind = "AWS::SNS::Topic"
        properties = {"DisplayName": display}
        return {"Resources": {name: {"Type": kind, "Properties": properties} for name in names}}

    (change,) = list_changes(topics("a", "b", "c", "d"), topics("a", "b", "e", display="new"))
    assert (change.resource, change.what) == ("AWS::SNS::Topic", "2 changed, 2 gone, 1 new")
    assert change.before is change.after is None
    (change,) = list_changes(None, one({"A": 1}))
    assert (change.resource, change.what) == ("AWS::SageMaker::Model", "1 new")

    kept = one({}, "SageMaker::Endpoint", DeletionPolicy="Retain", UpdateReplacePolicy="Retain")
    assert listed(one({}, "SageMaker::Endpoint"), kept) == [
        ("DeletionPolicy", None, "Retain"),
        ("UpdateReplacePolicy", None, "Retain"),
    ]

    def endpoint(*names: str) -> dict[str, Any]:
        alarms = [{"AlarmName": name} for name in names]
        config = {"AutoRollbackConfiguration": {"Alarms": alarms}}
        return one({"DeploymentConfig": config}, "SageMaker::Endpoint")

    assert listed(endpoint("a"), endpoint("a", "b")) == []
    after = one({"A": 1}, Metadata={"x": "y"}, DependsOn=["Other"])
    assert listed(one({"A": 1}), {**after, "Outputs": {"A": {"Value": 1}}}) == []


def test_another_configuration_is_a_new_fleet_and_a_retained_endpoint_is_kept() -> None:
    def both(batch: int) -> dict[str, Any]:
        variant = {"ModelName": {"Fn::GetAtt": ["ModelSizes", "ModelName"]}}
        config = {"ProductionVariants": [variant]}
        return {
            "Resources": {
                "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": config},
                "ModelSizes": {"Type": "AWS::SageMaker::Model", "Properties": {"A": 1}},
                "Batch": {"Type": "AWS::SageMaker::Model", "Properties": {"A": batch}},
            }
        }

    config, topic, endpoint = "SageMaker::EndpointConfig", "SNS::Topic", "SageMaker::Endpoint"
    for before, after, replaced in [
        (one({"A": 1}), one({"A": 2}), True),
        (one({"A": 1}, config), one({"A": 2}, config), True),
        (one({"A": 1}, topic), one({"A": 2}, topic), False),
        (None, one({}), True),
        (one({}), one({}), False),
        (both(1), both(2), False),
    ]:
        assert template_changes.predict_new_fleet(before, after) is replaced

    for without in ({}, one({"EndpointName": "a"}, topic)):
        assert template_changes.find_endpoint_name(without) is None
    for kind, policy, keeps in [
        (endpoint, "Retain", True), (endpoint, "Delete", False), ("SageMaker::Model", "Retain", False)
    ]:  # fmt: skip
        made = one({}, kind, UpdateReplacePolicy=policy)
        assert template_changes.is_endpoint_retained(made) == keeps


# --- states of the stack and the endpoint

TEMPLATE = one({"EndpointName": "ranker"}, "SageMaker::Endpoint")
CHANGED = one({"EndpointName": "ranker", "RetainDeploymentConfig": True}, "SageMaker::Endpoint")
NOW = LiveState(
    stack_status="UPDATE_COMPLETE", template=TEMPLATE, endpoint_name="ranker", endpoint_status="InService"
)  # fmt: skip


@pytest.fixture
def loaded(environment: Environment) -> ValidFile:
    return valid(environment(VALID))


def plan(loaded: ValidFile, now: LiveState, after: dict[str, Any] = CHANGED) -> DeployPlan:
    return build_plan(loaded, now, {"endpoint": after}, against="live", folder="environments")


def test_only_a_stack_and_an_endpoint_at_rest_take_a_deploy(loaded: ValidFile) -> None:
    for kind in ["CREATE", "UPDATE", "UPDATE_ROLLBACK", "IMPORT"]:
        found = plan(loaded, replace(NOW, stack_status=f"{kind}_COMPLETE"))
        assert (found.verdict, found.needs_attention) == ("update", False)
    for status in ["InService", "Failed", "OutOfService", None]:
        assert plan(loaded, replace(NOW, endpoint_status=status)).verdict == "update"
    for status, advice in [
        ("UPDATE_IN_PROGRESS", "wait until it has finished"),
        ("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", "wait until it has finished"),
        ("ROLLBACK_COMPLETE", "or delete it"),
        ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback"),
        ("DELETE_FAILED", "or delete it"),
    ]:
        found = plan(loaded, replace(NOW, stack_status=status))
        assert (found.verdict, found.deploys, found.needs_attention) == ("refused", [], True)
        assert (status in found.reasons[0], advice in found.reasons[0]) == (True, True)


def test_a_changed_tag_is_named_with_its_values(environment: Environment) -> None:
    loaded = valid(environment(VALID + '[tags]\nteam = "ads"\nunit = "a"\n'))
    found = plan(loaded, replace(NOW, tags={"team": "search", "owner": "b"}), TEMPLATE)
    assert (found.verdict, [str(change) for change in found.changes]) == ("update", [
        "CloudFormation::Stack: Tags.owner: b (gone)",
        "CloudFormation::Stack: Tags.team: search -> ads",
        "CloudFormation::Stack: Tags.unit: a (new)",
    ])  # fmt: skip
    assert plan(loaded, replace(NOW, tags=loaded.environment.tags), TEMPLATE).changes == []


def test_only_a_changed_template_is_a_deploy_and_no_foreign_endpoint(loaded: ValidFile) -> None:
    for status in ["Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"]:
        found = plan(loaded, replace(NOW, endpoint_status=status))
        expected = f"ranker is {status}: wait until it has finished"
        assert (found.verdict, found.reasons) == ("refused", [expected])

    found = plan(loaded, replace(NOW, components=True))
    hosts = "ranker hosts inference components, which this stack did not create:"
    assert (found.verdict, found.reasons[0].startswith(hosts)) == ("refused", True)
    named = {"InferenceComponentName": "a", "Specification": {}}
    made = one(named, "SageMaker::InferenceComponent")
    assert plan(loaded, replace(NOW, template=made, components=True), made).verdict == "nothing"

    taken = TakenName("endpoint", "an endpoint ranker exists", "delete it")
    found = plan(loaded, LiveState(taken=[taken]))
    assert found.reasons == ["an endpoint ranker exists: delete it"]

    found = plan(loaded, NOW, TEMPLATE)
    assert (found.verdict, found.deploys, found.new_fleet) == ("nothing", [], False)
    assert plan(loaded, replace(NOW, template=one({}, "SNS::Topic"))).verdict == "update"
    assert plan(loaded, replace(NOW, instances={"primary": 3})).instances == {"primary": 3}


def test_a_change_that_sagemaker_never_takes_is_refused_and_a_failed_creation_made_again(
    loaded: ValidFile,
) -> None:
    deployed = dict(build_deployed_variants(loaded.environment))
    found = plan(loaded, replace(NOW, queued=True, variants=deployed))
    assert found.verdict == "refused"
    assert found.reasons[0].startswith("SageMaker cannot remove asynchronous inference")
    assert "; deploy a second environment next to it" in found.reasons[0]

    def planned(**state: Any) -> DeployPlan:
        now = LiveState(stack_status="ROLLBACK_COMPLETE", **state)
        return plan(loaded, now, {"Resources": {}})

    assert planned().verdict == "create"
    commands = [deploy.command for deploy in planned(unlocking="aws unlock").deploys]
    assert commands == ["aws unlock", "cdk deploy 'prod/*'"]
    outside = "an endpoint ranker already exists outside this stack"
    found = planned(unlocking="aws", taken=(TakenName("endpoint", outside, "delete it"),))
    first, second = found.reasons
    assert ("deleted" in first, "outside this stack" in second) == (True, True)
    assert found.verdict == "refused"


def test_removed_variants_and_pools_are_let_go_by_commands_of_the_aws_cli(
    loaded: ValidFile,
) -> None:
    deployed = dict(build_deployed_variants(loaded.environment))

    def plan_from(**variants: DeployedVariant) -> DeployPlan:
        return plan(loaded, replace(NOW, variants=variants))

    types = ("ml.c5.xlarge", "ml.c6i.xlarge")
    pooled = DeployedVariant(instance_type=types[0], scales=True, pools=types)
    first, second = plan_from(primary=pooled).deploys
    assert first.command.startswith("aws application-autoscaling deregister-scalable-target ")
    assert (second.command, second.why) == ("cdk deploy 'prod/*'", "the change")

    scaled = DeployedVariant(instance_type="ml.c5.xlarge", scales=True)
    found = plan_from(**deployed, b=scaled, c=scaled)
    assert found.deploys[0].command.count("deregister-scalable-target") == 2
    assert " && " in found.deploys[0].command
    assert found.deploys[0].why == "scaling of b, c off; the number of instances stays"
    assert len(found.reasons) == 2
    other = DeployedVariant(instance_type="ml.m5.xlarge", scales=False)
    assert len(plan_from(primary=other).deploys) == 1
    # The AWS CLI takes each option.
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in ("service-namespace", "resource-id", "scalable-dimension", "region"):
        parser.add_argument(f"--{name}", required=True)
    for kind, counted in (
        ("ml.c5.xlarge", "DesiredInstanceCount"), (None, "DesiredProvisionedConcurrency")
    ):  # fmt: skip
        gone = DeployedVariant(instance_type=kind, scales=True)
        first, second = plan_from(**deployed, second=gone).deploys
        given = parser.parse_args(shlex.split(first.command)[3:])
        assert given.resource_id == "endpoint/ranker/variant/second"
        assert given.scalable_dimension == f"sagemaker:variant:{counted}"
        assert second.command == "cdk deploy 'prod/*'"


def test_a_version_of_the_model_registry_is_named_with_the_old_one() -> None:
    def model(package: Any) -> dict[str, Any]:
        return one({"PrimaryContainer": {"ModelPackageName": package} if package else {"A": 1}})

    def arn(version: str, *, region: str = "eu-west-1") -> Any:
        """As `artifact.model_package` is synthesised."""
        rest = f":sagemaker:{region}:111111111111:model-package/{version}"
        return {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, rest]]}

    def change(before: Any, after: Any) -> tuple[str | None, str | None]:
        found = listed(model(before), model(after))
        ((_, *versions),) = [one for one in found if one[0] == "PrimaryContainer.ModelPackageName"]
        return versions[0], versions[1]

    assert change(arn("ranker/7"), arn("ranker/8")) == ("ranker/7", "ranker/8")
    assert change(arn("ranker/7"), arn("search/1")) == ("ranker/7", "search/1")
    whole = "arn:aws:sagemaker:eu-west-1:222222222222:model-package/ranker"
    assert change(f"{whole}/7", f"{whole}/8") == ("ranker/7", "ranker/8")
    # One of another registry or instead of an archive is named whole.
    before, after = change(arn("ranker/7"), arn("ranker/7", region="us-east-1"))
    assert (before or "").endswith("eu-west-1:111111111111:model-package/ranker/7")
    assert (after or "").endswith("us-east-1:111111111111:model-package/ranker/7")
    whole = "arn:${AWS::Partition}:sagemaker:eu-west-1:111111111111:model-package/ranker/7"
    assert change(None, arn("ranker/7")) == (None, whole)
    assert change(arn("ranker/7"), None) == (whole, None)
