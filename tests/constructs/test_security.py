"""VPC, isolation, keys, capture: in the template where the file asks, absent where it does not."""

from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.preflight.check import check
from stacks.environment_stage import EnvironmentStage
from tests.conftest import VALID, Environment
from tests.constructs.conftest import FLAGS, Synthesised

Synthesise = Callable[..., Synthesised]
KEY = "arn:aws:kms:eu-west-1:111111111111:key/00000000-0000-0000-0000-00000000000"
NETWORK = '[network]\nsubnets = ["subnet-0a1b2c3d"]\nsecurity_groups = ["sg-0a1b2c3d"]\n'
CAPTURE = "[capture]\nsample_percent = 25\nkeep_days = 7\n"


@pytest.fixture
def data(environment: Environment) -> Synthesised:
    loaded = environment(VALID + CAPTURE)
    stage = EnvironmentStage(
        cdk.App(context=FLAGS, outdir=str(loaded.root / "cdk.out")), loaded, check(loaded)
    )
    stack = stage.node.find_child("data")
    assert isinstance(stack, cdk.Stack)
    return Synthesised(dict(Template.from_stack(stack).to_json()))


def model(found: Synthesised) -> dict[str, Any]:
    return found.one("AWS::SageMaker::Model")


def test_the_model_joins_the_files_subnets_and_groups(synthesise: Synthesise) -> None:
    assert model(synthesise(VALID + NETWORK))["VpcConfig"] == {
        "Subnets": ["subnet-0a1b2c3d"],
        "SecurityGroupIds": ["sg-0a1b2c3d"],
    }


def test_every_container_may_be_isolated_and_what_is_off_is_absent(synthesise: Synthesise) -> None:
    found = synthesise(VALID + "[security]\nnetwork_isolation = true\n")
    assert model(found)["EnableNetworkIsolation"] is True
    for name in ["VpcConfig", "EnableNetworkIsolation"]:
        assert name not in model(synthesise())
    for name in ["KmsKeyId", "DataCaptureConfig"]:
        assert name not in synthesise().one("AWS::SageMaker::EndpointConfig")


def test_logs_and_topic_take_the_files_keys_and_none_is_made(synthesise: Synthesise) -> None:
    named = f'name = "ranker"\nlog_kms_key = "{KEY}2"'
    found = synthesise(VALID.replace('name = "ranker"', named)).one("AWS::Logs::LogGroup")
    assert found["KmsKeyId"] == f"{KEY}2"

    found = synthesise(VALID + f'[alarms]\ntopic_kms_key = "{KEY}3"\n')
    assert (found.one("AWS::SNS::Topic")["KmsMasterKeyId"], found.all("AWS::KMS::Key")) == (
        f"{KEY}3",
        [],
    )


def test_samples_are_captured_as_the_file_says(synthesise: Synthesise) -> None:
    found = synthesise(VALID + CAPTURE).one("AWS::SageMaker::EndpointConfig")["DataCaptureConfig"]
    assert (found["InitialSamplingPercentage"], found["CaptureOptions"]) == (
        25,
        [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    )
    assert found["KmsKeyId"] == {"Fn::ImportValue": "prod-data-samples-key"}


def test_another_sampling_is_another_configuration_with_its_own_rollback_alarms(
    synthesise: Synthesise,
) -> None:
    rollout = '[rollout]\nstrategy = "canary"\n'
    names = [
        {one["AlarmName"] for one in synthesise(text + rollout).all("AWS::CloudWatch::Alarm")}
        for text in (VALID + CAPTURE, VALID + CAPTURE.replace("25", "26"))
    ]
    assert not {one for one in names[0] & names[1] if "rollback" in one}


def test_samples_end_after_their_days_and_outlive_their_stack(data: Synthesised) -> None:
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


def test_without_capture_there_is_no_data_stack(environment: Environment) -> None:
    loaded = environment()
    stage = EnvironmentStage(
        cdk.App(context=FLAGS, outdir=str(loaded.root / "cdk.out")), loaded, check(loaded)
    )
    assert stage.node.try_find_child("data") is None
