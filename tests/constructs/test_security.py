"""VPC, isolation, keys, capture, roles: in the template where the file asks, absent where it does not."""

from collections.abc import Callable

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from constructs import IConstruct

from infra.preflight.check import check
from stacks.environment_stage import EnvironmentStage
from tests.conftest import VALID, Environment
from tests.constructs.conftest import FLAGS, Synthesised

Synthesise = Callable[..., Synthesised]
KEY = "arn:aws:kms:eu-west-1:111111111111:key/00000000-0000-0000-0000-00000000000"
CAPTURE = "[capture]\nsample_percent = 25\nkeep_days = 7\n"


def data_stack(environment: Environment, text: str) -> IConstruct | None:
    loaded = environment(text)
    stage = EnvironmentStage(
        cdk.App(context=FLAGS, outdir=str(loaded.root / "cdk.out")), loaded, check(loaded)
    )
    return stage.node.try_find_child("data")


def test_a_model_is_in_its_network_isolated_and_under_the_files_keys(
    synthesise: Synthesise,
) -> None:
    named = f'name = "ranker"\nlog_kms_key = "{KEY}2"'
    found = synthesise(
        VALID.replace('name = "ranker"', named)
        + '[network]\nsubnets = ["subnet-0a1b2c3d"]\nsecurity_groups = ["sg-0a1b2c3d"]\n'
        + f'[security]\nnetwork_isolation = true\n[alarms]\ntopic_kms_key = "{KEY}3"\n'
    )
    model = found.one("AWS::SageMaker::Model")
    assert model["VpcConfig"] == {
        "Subnets": ["subnet-0a1b2c3d"],
        "SecurityGroupIds": ["sg-0a1b2c3d"],
    }
    assert model["EnableNetworkIsolation"] is True
    assert found.one("AWS::Logs::LogGroup")["KmsKeyId"] == f"{KEY}2"
    assert found.one("AWS::SNS::Topic")["KmsMasterKeyId"] == f"{KEY}3"
    # None is made.
    assert found.all("AWS::KMS::Key") == []


@pytest.mark.long
def test_the_endpoints_role_is_its_models_unless_one_has_its_own(synthesise: Synthesise) -> None:
    serving, other = (f"arn:aws:iam::111111111111:role/company/{name}" for name in "ab")
    text = VALID.replace('name = "ranker"', f'name = "ranker"\nexecution_role = "{serving}"', 1)
    found = synthesise(text)
    assert found.one("AWS::SageMaker::Model")["ExecutionRoleArn"] == serving
    assert found.all("AWS::IAM::Role") == found.all("AWS::IAM::Policy") == []
    text = text.replace('"2.20"', f'"2.20"\nexecution_role = "{other}"', 1)
    assert synthesise(text).one("AWS::SageMaker::Model")["ExecutionRoleArn"] == other


@pytest.mark.long
def test_every_role_has_the_boundary_and_the_path_that_are_given(synthesise: Synthesise) -> None:
    callers = 'name = "ranker"\ncallers = ["arn:aws:iam::111111111111:role/web"]'
    boundary = "arn:aws:iam::111111111111:policy/company/boundary"
    rules = f'permissions_boundary = "{boundary}"\niam_path = "/service/ranker/"\n'
    found = synthesise(VALID.replace('name = "ranker"', callers, 1) + f"[security]\n{rules}")
    role = found.one("AWS::IAM::Role")
    assert (role["PermissionsBoundary"], role["Path"]) == (boundary, "/service/ranker/")
    assert found.one("AWS::IAM::ManagedPolicy")["Path"] == "/service/ranker/"
    assert not {"PermissionsBoundary", "Path"} & set(synthesise().one("AWS::IAM::Role"))


def test_samples_are_captured_as_the_file_says(synthesise: Synthesise) -> None:
    found = synthesise(VALID + CAPTURE).one("AWS::SageMaker::EndpointConfig")["DataCaptureConfig"]
    assert (found["InitialSamplingPercentage"], found["CaptureOptions"]) == (
        25,
        [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    )
    assert found["KmsKeyId"] == {"Fn::ImportValue": "prod-data-samples-key"}


@pytest.mark.long
def test_samples_end_after_their_days_and_outlive_their_stack(environment: Environment) -> None:
    assert data_stack(environment, VALID) is None
    stack = data_stack(environment, VALID + CAPTURE)
    assert isinstance(stack, cdk.Stack)
    data = Synthesised(dict(Template.from_stack(stack).to_json()))
    ends = [
        one["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"]
        for one in data.all("AWS::S3::Bucket")
    ]
    assert sorted(ends) == [7, 365]
    kept = [
        resource["DeletionPolicy"]
        for resource in data.template["Resources"].values()
        if resource["Type"] in ("AWS::S3::Bucket", "AWS::KMS::Key")
    ]
    assert kept == ["RetainExceptOnCreate", "Retain", "RetainExceptOnCreate"]
    denied = [
        [one["Condition"] for one in each["PolicyDocument"]["Statement"] if one["Effect"] == "Deny"]
        for each in data.all("AWS::S3::BucketPolicy")
    ]
    assert denied == [[{"Bool": {"aws:SecureTransport": "false"}}]] * 2
