"""Event patterns: those of AWS's page are taken, and what is wrong is said with its place.

Source: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html
"""

import pytest

from servable_local.aws.moto_patches.event_patterns import problems


@pytest.mark.parametrize(
    "pattern",
    [
        '{"source": ["aws.ec2"], "detail": {"state": ["initializing", null, 1, true]}}',
        '{"time": [{"prefix": "2017-10-02"}], "a": [{"suffix": {"equals-ignore-case": ".png"}}]}',
        '{"state": [{"anything-but": ["a", "b"]}], "b": [{"anything-but": {"wildcard": "*/lib/*"}}]}',
        '{"p": [{"numeric": [">", 0, "<=", 5e3]}], "q": [{"numeric": ["=", -3.018e2]}]}',
        '{"ip": [{"cidr": "10.0.0.0/24"}], "c": [{"exists": false}], "d": [{"wildcard": "a*c"}]}',
        '{"$or": [{"c": [{"numeric": [">", 0, "<", 5]}]}, {"d": {"e": ["\\"}"]}}]}',
    ],
)
def test_a_pattern_of_aws_s_page_is_taken(pattern: str) -> None:
    assert list(problems(pattern)) == []


@pytest.mark.parametrize(
    ("pattern", "reason", "column"),
    [
        ("{", "Unexpected end-of-input", 2),
        ('{"a": [nope]}', "Unrecognized token 'nope'", 12),
        ('{"a" ["b"]}', "was expecting a colon to separate field name and value", 6),
        ('{"a": ["b" "c"]}', "was expecting comma to separate Array entries", 12),
        ('{"a": "b"}', '"a" must be an object or an array', 8),
        ('{"a": {}}', "Empty objects are not allowed", 9),
        ('{"a": [["b"]]}', "Match value must be String", 9),
        ('{"a": [{"exists": 1}]}', "exists match pattern must be either true or false.", 20),
        ('{"a": [{"like": 1}]}', "Unrecognized match type like", 18),
        ('{"a": [{"numeric": [">", "0"]}]}', "Value of > must be numeric", 27),
        ('{"a": [{"numeric": [">", 5, "<", 5]}]}', "Bottom must be less than top", 35),
        ('{"a": [{"prefix": "b", "suffix": "c"}]}', "Only one key allowed", 32),
    ],
)
def test_what_is_wrong_is_said_with_its_place(pattern: str, reason: str, column: int) -> None:
    message = next(problems(pattern))[1]
    assert (reason in message, message.endswith(f"column: {column}]")) == (True, True), message
