"""CloudFormation's intrinsic functions, parameters and order of creation, as its user guide has them.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference.html
"""

import base64
import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.cloudformation.template import (
    choose_parameters,
    compute_creation_order,
    find_dependencies,
    find_references,
    parse_bucket_and_key,
    parse_template,
    read_template,
    resolve_parameters,
)
from servable_local.aws.errors import ValidationError
from servable_scaling.intrinsics import LATER, Evaluator, TemplateError


class Stack(Evaluator):
    """One resource `Topic`, whose Ref is topic-1 and whose attribute Name is "one"."""

    def __init__(self) -> None:
        super().__init__(
            pseudo={"AWS::Region": "eu-west-1", "AWS::Partition": "aws"},
            exports={"shared": "from afar"},
            parameters={"Size": "4", "Names": ["a", "b"]},
            mappings={"Images": {"eu-west-1": {"cpu": "image-1"}}},
        )
        self.conditions = {"Yes": True, "No": False}

    def find_physical_id(self, name: str) -> Any:
        if name == "Topic":
            return "topic-1"
        raise TemplateError(f"no {name}")

    def find_attribute(self, name: str, attribute: str) -> Any:
        return {("Topic", "Name"): "one", ("Topic", "A.B"): "deep"}[name, attribute]


JOIN, SELECT, SPLIT, SUB = "Fn::Join", "Fn::Select", "Fn::Split", "Fn::Sub"


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"Ref": "Topic"}, "topic-1"),
        ({"Ref": "AWS::Region"}, "eu-west-1"),
        ({"Ref": "Size"}, "4"),
        ({"Ref": "AWS::NoValue"}, None),
        ({"Fn::GetAtt": ["Topic", "Name"]}, "one"),
        ({"Fn::GetAtt": "Topic.Name"}, "one"),
        ({"Fn::GetAtt": "Topic.A.B"}, "deep"),
        ({SUB: "${Topic} in ${AWS::Region}"}, "topic-1 in eu-west-1"),
        ({SUB: "${ Topic } ${Topic.Name}"}, "topic-1 one"),
        ({SUB: "${!Literal} ${Size}"}, "${Literal} 4"),
        ({SUB: ["${Own}-${Size}", {"Own": {"Ref": "Topic"}}]}, "topic-1-4"),
        ({JOIN: ["-", ["a", {"Ref": "Size"}, 3]]}, "a-4-3"),
        ({JOIN: ["-", {"Ref": "Names"}]}, "a-b"),
        ({JOIN: ["-", "not a list"]}, "not a list"),
        ({SELECT: [0, ["a", "b"]]}, "a"),
        ({SELECT: ["1", ["a", "b"]]}, "b"),
        ({SELECT: [0, LATER]}, LATER),
        ({SPLIT: [",", "a,b"]}, ["a", "b"]),
        ({SPLIT: [",", f"a,{LATER}"]}, LATER),
        ({"Fn::FindInMap": ["Images", {"Ref": "AWS::Region"}, "cpu"]}, "image-1"),
        ({"Fn::ImportValue": "shared"}, "from afar"),
        ({"Fn::GetAZs": "us-east-1"}, ["us-east-1a", "us-east-1b", "us-east-1c"]),
        ({"Fn::GetAZs": ""}, ["eu-west-1a", "eu-west-1b", "eu-west-1c"]),
        ({"Fn::Base64": {"Ref": "Size"}}, base64.b64encode(b"4").decode()),
        ({"Fn::ToJsonString": {"A": {"Ref": "Size"}}}, json.dumps({"A": "4"})),
        ({"Fn::If": ["Yes", "a", "b"]}, "a"),
        ({"Fn::If": ["No", "a", {"Ref": "Topic"}]}, "topic-1"),
        ({"Fn::Equals": [{"Ref": "Size"}, "4"]}, True),
        ({"Fn::Equals": ["a", "b"]}, False),
        ({"Fn::Equals": [True, "true"]}, True),
        ({"Fn::Equals": [False, "true"]}, False),
        ({"Fn::Contains": [["a", "b"], "a"]}, True),
        ({"Fn::Contains": [["a", "b"], "c"]}, False),
        ({"Fn::Not": [{"Condition": "Yes"}]}, False),
        ({"Fn::And": [{"Condition": "Yes"}, {"Condition": "No"}]}, False),
        ({"Fn::And": [{"Condition": "Yes"}, {"Condition": "Yes"}]}, True),
        ({"Fn::Or": [{"Condition": "Yes"}, {"Condition": "No"}]}, True),
        ({"Fn::Or": [{"Condition": "No"}, {"Condition": "No"}]}, False),
        # What is no function stays as it is.
        ({"Condition": "Other"}, {"Condition": "Other"}),
        ({"Condition": {"Bool": {"aws:SecureTransport": "false"}}},) * 2,
        ({"Ref": "Topic", "Other": 1}, {"Ref": "Topic", "Other": 1}),
        ([1, None, {"A": True}],) * 2,
        # What Ref AWS::NoValue answers is left out of lists and objects.
        ([{"Ref": "AWS::NoValue"}, 1], [1]),
        ({"A": {"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}, "B": 2}, {"B": 2}),
    ],
)  # fmt: skip
def test_a_function_answers_what_the_user_guide_says(value: Any, answer: Any) -> None:
    assert Stack().evaluate(value) == answer


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"Fn::Cidr": []}, "The function Fn::Cidr is not emulated"),
        ({"Fn::If": ["Absent", 1, 2]}, "unresolved condition dependency Absent"),
        ({SELECT: [2, ["a", "b"]]}, "Fn::Select requires a list argument"),
        ({SELECT: [-1, ["a", "b"]]}, "Fn::Select requires a list argument"),
        ({"Fn::FindInMap": ["Images", "us-east-1", "cpu"]}, "Unable to get mapping"),
        ({"Fn::FindInMap": ["None", "a", "b"]}, "Mapping named 'None' is not present in the 'Map"),
        ({JOIN: ["-"]}, "Fn::Join requires a list of 2 arguments"),
        ({SPLIT: ["-", ["a"]]}, "Fn::Split requires a delimiter and a string"),
        ({"Fn::If": ["Yes", 1]}, "Fn::If requires a list of 3 arguments"),
        ({"Fn::And": [{"Condition": "Yes"}]}, "Fn::And requires a list of 2 to 10 arguments"),
        ({"Fn::ImportValue": "absent"}, "No export named absent found."),
        ("{{resolve:ssm:name}}", "Dynamic references are not emulated"),
    ],
)
def test_what_has_no_answer_is_a_sentence(value: Any, problem: str) -> None:
    with pytest.raises(TemplateError, match=problem):
        Stack().evaluate(value)


# --- the text of a template
def test_yaml_with_short_forms_is_json_with_the_long_ones() -> None:
    text = """
        Conditions: {Big: !Equals [!Ref Size, "4"]}
        Resources:
          Role:
            Type: AWS::IAM::Role
            Condition: Big
            Properties:
              Version: 2012-10-17
              Name: !Sub "${Topic}-a"
              Arn: !GetAtt Topic.Arn
              Both: !And [!Condition Big, !Condition Big]
              Map: !Transform {Name: X}
    """
    role = parse_template(text)["Resources"]["Role"]["Properties"]
    assert parse_template(text)["Conditions"] == {"Big": {"Fn::Equals": [{"Ref": "Size"}, "4"]}}
    assert role == {
        "Version": "2012-10-17",
        "Name": {"Fn::Sub": "${Topic}-a"},
        "Arn": {"Fn::GetAtt": "Topic.Arn"},
        "Both": {"Fn::And": [{"Condition": "Big"}, {"Condition": "Big"}]},
        "Map": {"Fn::Transform": {"Name": "X"}},
    }


A = '{"Resources": {"A": {"Type": "T"'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Template format error"),
        ("[]", "Template format error: unsupported structure"),
        ("{}", "At least one Resources member must be defined"),
        ('{"Resources": {"A": 1}}', r"\[/Resources/A\] resource definition is malformed"),
        ('{"Resources": {"A": {"Type": 1}}}', "must contain a Type member"),
        (A + ', "Properties": []}}}', "A/Properties. resource definition is malformed"),
        (A + ', "DeletionPolicy": "Go"}}}', "Unrecognized DeletionPolicy Go for resource A"),
        (A + '}}, "Own": 1}', r"^ValidationError: Invalid template property or properties \[Own\]"),
        (A + '}}, "Parameters": {"P": {}}}', "Every Parameters object must contain a Type"),
        (A + '}}, "Parameters": {"P": {"Type": "X"}}}', "Unrecognized parameter type: X"),
        (A + '}}, "Outputs": {"O": {"Value": []}}}', "to a String and not a List."),
        (A + '}}, "Outputs": {"O": {"Value": {}}}}', "to a String and not a Map."),
    ],
)
def test_a_text_that_is_no_template_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        parse_template(text)


def test_a_template_has_an_address_of_s3() -> None:
    cases: list[tuple[str, tuple[str, str]]] = [
        ("https://b.s3.eu-west-1.amazonaws.com/a/k.json", ("b", "a/k.json")),
        ("https://b.s3-eu-west-1.amazonaws.com/k%20x", ("b", "k x")),
        ("http://127.0.0.1:4566/b/a/k", ("b", "a/k")),
        ("https://s3.eu-west-1.amazonaws.com/b/k", ("b", "k")),
        ("https://b.s3.example.com/c/k", ("c", "k")),
    ]
    for url, place in cases:
        assert parse_bucket_and_key(url) == place

    def get_object(**given: str) -> Any:
        raise ClientError({"Error": {"Message": "Access Denied"}}, "GetObject")

    aws: Any = SimpleNamespace(client=lambda name: SimpleNamespace(get_object=get_object))
    with pytest.raises(ValidationError, match=r"S3 error: Access Denied \(http://localhost/b/k\)"):
        read_template("http://localhost/b/k", aws)


# --- parameters

DECLARED = {
    "Parameters": {
        "Size": {"Type": "String", "Default": 4, "AllowedValues": [4, 8]},
        "Name": {"Type": "String"},
    }
}


def given_parameters(**values: str | None) -> list[dict[str, Any]]:
    """As an API takes them; None: the previous value."""
    previous: dict[str, Any] = {"UsePreviousValue": True}
    return [
        {"ParameterKey": name} | ({"ParameterValue": value} if value else previous)
        for name, value in values.items()
    ]


def test_a_parameters_value_is_the_given_one_else_the_previous_else_the_default() -> None:
    given = given_parameters(Name="a")
    assert choose_parameters(DECLARED, given, {}) == {"Size": "4", "Name": "a"}
    given = given_parameters(Name=None, Size="8")
    assert choose_parameters(DECLARED, given, {"Name": "b"}) == {"Size": "8", "Name": "b"}

    cases: list[tuple[dict[str, str | None], str]] = [
        ({}, r"Parameters: \[Name\] must have values"),
        ({"Name": None}, r"Parameters: \[Name\] must have values"),
        ({"Name": "a", "Z": "a", "A": "a"}, r"Parameters: \[A, Z\] do not exist in the template"),
        ({"Name": "a", "Size": "5"}, "Parameter 'Size' must be one of AllowedValues"),
    ]
    for wrong, problem in cases:
        with pytest.raises(ValidationError, match=problem):
            choose_parameters(DECLARED, given_parameters(**wrong), {})


def test_a_parameter_fits_its_slot() -> None:
    number = {"Type": "Number", "MinValue": 2, "MaxValue": 8}
    cases: list[tuple[dict[str, Any], str, str | None]] = [
        ({"AllowedPattern": "[a-z]+"}, "a1", r"Parameter 'P' must match pattern \[a-z\]\+"),
        ({"AllowedPattern": "[a-z]+"}, "ab", None),
        ({"AllowedPattern": "[a", "MinLength": 2}, "ab", None),
        ({"MinLength": 2}, "a", "Parameter 'P' must contain at least 2 characters"),
        ({"MaxLength": "2"}, "abc", "Parameter 'P' must contain at most 2 characters"),
        (number, "1", "Parameter 'P' must be a number not less than 2"),
        (number, "9", "Parameter 'P' must be a number not greater than 8"),
        (number, "8", None),
        ({"Type": "List<Number>"}, "1, x", r"Parameter 'P' must be a number\."),
        ({"MinLength": 2, "ConstraintDescription": "long"}, "a", "satisfy constraint: long"),
    ]
    for slot, value, problem in cases:
        template = {"Parameters": {"P": {"Type": "String", **slot}}}
        with pytest.raises(ValidationError, match=problem) if problem else nullcontext():
            choose_parameters(template, given_parameters(P=value), {})


def test_ref_answers_a_parameter_by_its_type() -> None:
    def get_parameter(**asked: str) -> Any:
        if asked != {"Name": "/sizes"}:
            raise ClientError({"Error": {"Code": "ParameterNotFound"}}, "GetParameter")
        return {"Parameter": {"Value": "1, 2"}}

    def resolved(kind: str, value: str) -> Any:
        aws: Any = SimpleNamespace(client={"ssm": SimpleNamespace(get_parameter=get_parameter)}.get)
        return resolve_parameters({"Parameters": {"P": {"Type": kind}}}, {"P": value}, aws)["P"]

    stored = "AWS::SSM::Parameter::Value"
    for kind, value, answer in [
        ("String", "a, b", "a, b"),
        ("Number", "4", "4"),
        ("CommaDelimitedList", "a, b", ["a", "b"]),
        ("List<Number>", "1,2", ["1", "2"]),
        (f"{stored}<String>", "/sizes", "1, 2"),
        (f"{stored}<List<String>>", "/sizes", ["1", "2"]),
    ]:
        assert resolved(kind, value) == answer
    with pytest.raises(ValidationError, match="Parameter P should either have"):
        resolved(f"{stored}<String>", "/absent")


# --- the order of creation
def test_a_resource_waits_for_what_it_names_and_depends_on() -> None:
    declaration = {
        "DependsOn": ["A"],
        "Properties": {
            "B": {"Ref": "B"},
            "C": [{"Fn::GetAtt": ["C", "Arn"]}, {"Fn::GetAtt": "D.Arn"}],
            "E": {"Fn::Sub": "${E} ${F.Arn} ${!G}"},
            "H": {"Fn::Sub": ["${H}", {"X": {"Ref": "I"}}]},
        },
    }
    assert find_dependencies(declaration) == set("ABCDEFHI")
    assert find_dependencies({"DependsOn": "A"}) == {"A"}
    assert list(find_references({"Ref": {"not": "a name"}})) == []


def test_the_order_is_the_one_given_and_a_circle_is_refused() -> None:
    assert compute_creation_order({"c": set(), "a": {"a"}, "b": set()}) == ["c", "a", "b"]
    waits = {"a": {"d"}, "b": {"a", "c"}, "c": set(), "d": {"c", "absent"}}
    assert compute_creation_order(waits) == ["c", "d", "a", "b"]
    with pytest.raises(ValidationError, match=r"between resources: \[b, c\]"):
        compute_creation_order({"a": {"b"}, "b": {"c"}, "c": {"b"}})
