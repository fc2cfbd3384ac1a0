"""A template's references, as the resources that CloudFormation made answer them."""

from typing import Any

import pytest

from servable.verify.deployed import UNKNOWN, AnyCase, DeployedEvaluator

_PARTITION = {"Ref": "AWS::Partition"}
_DEPLOYED = DeployedEvaluator(
    physical={
        "Role": "ranker-role",
        "Filed": "filed",
        "Model": "arn:aws:sagemaker:eu-west-1:1:model/ranker-1",
    },
    resources={
        "Role": {"Type": "AWS::IAM::Role"},
        "Filed": {"Type": "AWS::IAM::Role", "Properties": {"Path": "/service/ranker/"}},
        "Model": {"Type": "AWS::SageMaker::Model"},
    },
    pseudo={"AWS::Partition": "aws", "AWS::Region": "eu-west-1", "AWS::AccountId": "1"},
    exports={"data:bucket": "captures"},
)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"Ref": "Role"}, "ranker-role"),
        ({"Fn::GetAtt": ["Role", "Arn"]}, "arn:aws:iam::1:role/ranker-role"),
        ({"Fn::GetAtt": ["Filed", "Arn"]}, "arn:aws:iam::1:role/service/ranker/filed"),
        ({"Fn::GetAtt": ["Model", "ModelName"]}, "RANKER-1"),
        ({"Fn::Join": ["", ["arn:", _PARTITION, ":s3:::b/*"]]}, "arn:aws:s3:::b/*"),
        ({"Fn::Sub": "${AWS::Region}/${!Literal}"}, "eu-west-1/${Literal}"),
        ({"Fn::ImportValue": "data:bucket"}, "captures"),
        ([{"Ref": "AWS::NoValue"}, 1], [1]),
        ({"Condition": {"Bool": {}}}, {"Condition": {"Bool": {}}}),
    ],
)
def test_what_the_stack_says_takes_the_place_of_its_function(part: Any, said: Any) -> None:
    assert _DEPLOYED.evaluate(part) == said


@pytest.mark.parametrize(
    "part",
    [
        {"Ref": "Parameter"},
        {"Fn::GetAtt": ["Role", "RoleId"]},
        {"Fn::Join": ["", ["a", {"Ref": "Parameter"}]]},
        {"Fn::Join": [",", {"Ref": "Subnets"}]},
        {"Fn::Sub": "a/${Parameter}"},
        {"Fn::ImportValue": "of another"},
        {"Fn::If": ["Condition", 1, 2]},
        {"Fn::GetAZs": ""},
        "{{resolve:ssm:/name}}",
    ],
)
def test_what_only_cloudformation_knows_is_unknown_as_a_whole(part: Any) -> None:
    assert _DEPLOYED.evaluate({"Key": part})["Key"] is UNKNOWN


def test_a_name_out_of_an_arn_is_the_same_in_any_case_and_an_attribute_of_nothing_is_unknown() -> (
    None
):
    name = _DEPLOYED.evaluate({"Fn::GetAtt": ["Model", "ModelName"]})
    assert (name == "Ranker-1", name != "Ranker-1", hash(name)) == (
        True,
        False,
        hash(AnyCase("RANKER-1")),
    )
    assert (name == "ranker-2", name != "ranker-2", name == 1) == (False, True, False)
    assert _DEPLOYED.find_attribute("Absent", "Arn") is UNKNOWN
    assert _DEPLOYED.find_attribute("Model", "ModelArn") is UNKNOWN
    assert (
        _DEPLOYED.find_attribute("Model", "Arn") == "arn:aws:sagemaker:eu-west-1:1:model/ranker-1"
    )
    assert _DEPLOYED.find_attribute("Role", "EndpointName") is UNKNOWN
