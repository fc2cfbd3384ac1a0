"""A template's references, as the resources that CloudFormation made answer them."""

from typing import Any

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


def test_what_the_stack_says_takes_the_place_of_its_function() -> None:
    cases: list[tuple[Any, Any]] = [
        ({"Ref": "Role"}, "ranker-role"),
        ({"Fn::GetAtt": ["Role", "Arn"]}, "arn:aws:iam::1:role/ranker-role"),
        ({"Fn::GetAtt": ["Filed", "Arn"]}, "arn:aws:iam::1:role/service/ranker/filed"),
        ({"Fn::GetAtt": ["Model", "ModelName"]}, "RANKER-1"),
        ({"Fn::Join": ["", ["arn:", _PARTITION, ":s3:::b/*"]]}, "arn:aws:s3:::b/*"),
        ({"Fn::Sub": "${AWS::Region}/${!Literal}"}, "eu-west-1/${Literal}"),
        ({"Fn::ImportValue": "data:bucket"}, "captures"),
        ([{"Ref": "AWS::NoValue"}, 1], [1]),
        ({"Condition": {"Bool": {}}}, {"Condition": {"Bool": {}}}),
    ]
    for part, said in cases:
        assert _DEPLOYED.evaluate(part) == said

    name = _DEPLOYED.evaluate({"Fn::GetAtt": ["Model", "ModelName"]})
    assert hash(name) == hash(AnyCase("RANKER-1"))
    assert (name == "Ranker-1", name != "Ranker-1") == (True, False)
    assert (name == "ranker-2", name != "ranker-2", name == 1) == (False, True, False)
    assert _DEPLOYED.find_attribute("Absent", "Arn") is UNKNOWN
    assert _DEPLOYED.find_attribute("Model", "ModelArn") is UNKNOWN
    arn = "arn:aws:sagemaker:eu-west-1:1:model/ranker-1"
    assert _DEPLOYED.find_attribute("Model", "Arn") == arn
    assert _DEPLOYED.find_attribute("Role", "EndpointName") is UNKNOWN


def test_what_only_cloudformation_knows_is_unknown_as_a_whole() -> None:
    unknown: list[Any] = [
        {"Ref": "Parameter"},
        {"Fn::GetAtt": ["Role", "RoleId"]},
        {"Fn::Join": ["", ["a", {"Ref": "Parameter"}]]},
        {"Fn::Join": [",", {"Ref": "Subnets"}]},
        {"Fn::Sub": "a/${Parameter}"},
        {"Fn::ImportValue": "of another"},
        {"Fn::If": ["Condition", 1, 2]},
        {"Fn::GetAZs": ""},
        "{{resolve:ssm:/name}}",
    ]
    for part in unknown:
        assert _DEPLOYED.evaluate({"Key": part})["Key"] is UNKNOWN
