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
from hypothesis import given, settings
from hypothesis import strategies as st

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
        ({JOIN: ["-"]}, "every Fn::Join object requires two parameters"),
        ({SPLIT: ["-", ["a"]]}, "every Fn::Split object requires two parameters"),
        ({"Fn::If": ["Yes", 1]}, "Fn::If requires a list argument with three elements"),
        ({"Fn::And": [{"Condition": "Yes"}]}, "at least 2 and at most 10 boolean parameters."),
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


RESOURCES = '{"Resources": {"A": {"Type": "T"'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Template format error"),
        ("[]", "Template format error: unsupported structure"),
        ("{}", "At least one Resources member must be defined"),
        ('{"Resources": {"A": 1}}', r"\[/Resources/A\] resource definition is malformed"),
        (RESOURCES + ', "Properties": []}}}', "A/Properties. resource definition is malformed"),
        (
            RESOURCES + ', "DeletionPolicy": "Go"}}}',
            "Unrecognized DeletionPolicy Go for resource A",
        ),
        (
            RESOURCES + '}}, "Own": 1}',
            r"^ValidationError: Invalid template property or properties \[Own\]",
        ),
        (RESOURCES + '}}, "Parameters": {"P": {}}}', "Every Parameters object must contain a Type"),
        (RESOURCES + '}}, "Parameters": {"P": {"Type": "X"}}}', "Unrecognized parameter type: X"),
        (RESOURCES + '}}, "Outputs": {"O": {"Value": []}}}', "to a String and not a List."),
        (RESOURCES + '}}, "Outputs": {"O": {"Value": {}}}}', "to a String and not a Map."),
        ('{"Resources": {"A": {"Type": 1}}}', "must contain a Type member"),
    ],
)
def test_a_text_that_is_no_template_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        parse_template(text)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://b.s3.eu-west-1.amazonaws.com/a/k.json", ("b", "a/k.json")),
        ("https://b.s3-eu-west-1.amazonaws.com/k%20x", ("b", "k x")),
        ("http://127.0.0.1:4566/b/a/k", ("b", "a/k")),
        ("https://s3.eu-west-1.amazonaws.com/b/k", ("b", "k")),
        ("https://b.s3.example.com/c/k", ("c", "k")),
    ],
)
def test_a_templates_address_is_a_bucket_and_a_key(url: str, place: tuple[str, str]) -> None:
    assert parse_bucket_and_key(url) == place


def test_a_template_that_cannot_be_fetched_is_a_sentence() -> None:
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


def given_parameter(name: str, value: str | None) -> dict[str, Any]:
    said = {"UsePreviousValue": True} if value is None else {"ParameterValue": value}
    return {"ParameterKey": name, **said}


def test_a_parameters_value_is_the_given_one_else_the_previous_else_the_default() -> None:
    passed = [given_parameter("Name", "a")]
    assert choose_parameters(DECLARED, passed, {}) == {"Size": "4", "Name": "a"}
    assert choose_parameters(
        DECLARED, [given_parameter("Name", None), given_parameter("Size", "8")], {"Name": "b"}
    ) == {"Size": "8", "Name": "b"}


NUMBER = {"Type": "Number", "MinValue": 2, "MaxValue": 8}


@pytest.mark.parametrize(
    ("slot", "value", "problem"),
    [
        ({"AllowedPattern": "[a-z]+"}, "a1", r"Parameter 'P' must match pattern \[a-z\]\+"),
        ({"AllowedPattern": "[a-z]+"}, "ab", None),
        ({"AllowedPattern": "[a", "MinLength": 2}, "ab", None),
        ({"MinLength": 2}, "a", "Parameter 'P' must contain at least 2 characters"),
        ({"MaxLength": "2"}, "abc", "Parameter 'P' must contain at most 2 characters"),
        (NUMBER, "1", "Parameter 'P' must be a number not less than 2"),
        (NUMBER, "9", "Parameter 'P' must be a number not greater than 8"),
        (NUMBER, "8", None),
        ({"Type": "List<Number>"}, "1, x", r"Parameter 'P' must be a number\."),
        (
            {"MinLength": 2, "ConstraintDescription": "long"},
            "a",
            "failed to satisfy constraint: long",
        ),
    ],
)
def test_a_parameter_fits_its_slot(slot: dict[str, Any], value: str, problem: str | None) -> None:
    template = {"Parameters": {"P": {"Type": "String", **slot}}}
    with pytest.raises(ValidationError, match=problem) if problem else nullcontext():
        choose_parameters(template, [given_parameter("P", value)], {})


@pytest.mark.parametrize(
    ("passed", "problem"),
    [
        ([], r"Parameters: \[Name\] must have values"),
        ([given_parameter("Name", None)], r"Parameters: \[Name\] must have values"),
        (
            [given_parameter("Name", "a"), given_parameter("Z", "a"), given_parameter("A", "a")],
            r"Parameters: \[A, Z\] do not exist in the template",
        ),
        (
            [given_parameter("Name", "a"), given_parameter("Size", "5")],
            "Parameter 'Size' must be one of AllowedValues",
        ),
    ],
)
def test_wrong_parameters_are_named(passed: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        choose_parameters(DECLARED, passed, {})


class Store:
    """Parameter Store with one parameter, /sizes."""

    def client(self, service: str) -> Any:
        assert service == "ssm"
        return self

    def get_parameter(self, **asked: str) -> Any:
        if asked != {"Name": "/sizes"}:
            raise ClientError({"Error": {"Code": "ParameterNotFound"}}, "GetParameter")
        return {"Parameter": {"Value": "1, 2"}}


@pytest.mark.parametrize(
    ("kind", "value", "answer"),
    [
        ("String", "a, b", "a, b"),
        ("Number", "4", "4"),
        ("CommaDelimitedList", "a, b", ["a", "b"]),
        ("List<Number>", "1,2", ["1", "2"]),
        ("AWS::SSM::Parameter::Value<String>", "/sizes", "1, 2"),
        ("AWS::SSM::Parameter::Value<List<String>>", "/sizes", ["1", "2"]),
    ],
)
def test_ref_answers_a_parameter_by_its_type(kind: str, value: str, answer: Any) -> None:
    store: Any = Store()
    template = {"Parameters": {"P": {"Type": kind}}}
    assert resolve_parameters(template, {"P": value}, store) == {"P": answer}


def test_a_parameter_that_the_store_lacks_is_refused_in_aws_s_words() -> None:
    store: Any = Store()
    template = {"Parameters": {"P": {"Type": "AWS::SSM::Parameter::Value<String>"}}}
    with pytest.raises(ValidationError, match="Parameter P should either have"):
        resolve_parameters(template, {"P": "/absent"}, store)


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


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"))))
def test_resources_are_made_in_order(given_: dict[str, set[str]]) -> None:
    # Only letters before one's own: no circle.
    waits = {name: {other for other in others if other < name} for name, others in given_.items()}
    order = compute_creation_order(waits)
    assert sorted(order) == sorted(waits)
    for name, others in waits.items():
        assert all(order.index(other) < order.index(name) for other in others & set(waits))


def test_the_order_is_the_one_given_and_a_circle_is_refused() -> None:
    assert compute_creation_order({"c": set(), "a": {"a"}, "b": set()}) == ["c", "a", "b"]
    with pytest.raises(ValidationError, match=r"between resources: \[b, c\]"):
        compute_creation_order({"a": {"b"}, "b": {"c"}, "c": {"b"}})
