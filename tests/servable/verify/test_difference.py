"""How a wanted value and a live one are compared, and how a report is judged."""

from typing import Any

import pytest

from servable.verify.deployed import UNKNOWN
from servable.verify.difference import (
    RESTORE,
    Difference,
    Report,
    build_missing_difference,
    find_changes,
    find_undeclared,
    find_unequal,
    is_same,
)


def test_numbers_and_booleans_may_be_text_and_added_keys_are_named() -> None:
    cases: list[tuple[object, object, bool]] = [
        (True, "true", True),
        ("true", True, True),
        (True, 1, False),
        (True, False, False),
        (1, "1", True),
        ("2", 2.0, True),
        (1, 1.0000001, True),
        (1, 1.001, False),
        (1e9, 1e9 + 1, True),
        (1, None, False),
        (1, "x", False),
        ("a", "a", True),
        ("a", "b", False),
        (None, None, True),
    ]
    for wanted, actual, equal in cases:
        assert is_same(wanted, actual) is equal
    (found,) = find_changes("kind", "name", 1, 2, "fix", "B")
    assert (found.key, found.wanted, found.found, found.remedy) == ("B", 1, 2, "fix")


@pytest.mark.parametrize(
    ("wanted", "actual", "found"),
    [
        ({"A": {"B": 1}}, {"A": {"B": 2, "C": 3}}, [("A.B", 1, 2)]),
        ({"A": {"B": 1}}, {"A": 5}, [("A.B", 1, None)]),
        ({"A": UNKNOWN}, {"A": 1}, []),
        ({"L": ["b", "a"]}, {"L": ["a", "b"]}, []),
        ({"L": ["a"]}, {"L": ["a", "b"]}, [("L", ["a"], ["a", "b"])]),
        ({"L": ["a", UNKNOWN]}, {"L": ["a"]}, []),
        ({"L": [1, 2]}, {"L": [1, 3]}, [("L[1]", 2, 3)]),
        ({"L": []}, {"L": []}, []),
        ({"L": []}, {"L": [{"Name": "a"}]}, [("L", [], [{"Name": "a"}])]),
        (
            {"L": [{"Name": "a", "V": 1}, {"Name": "b"}]},
            {"L": [{"Name": "c"}, {"Name": "a", "V": 2}]},
            [("L[a].V", 1, 2), ("L[b]", "there", "not there"), ("L[c]", "not there", "there")],
        ),
        ({"L": [{"Name": "a", "V": 1}]}, {"L": None}, [("L[a]", "there", "not there")]),
        ({"L": [{"Name": "a"}, 1]}, {"L": [{"Name": "b"}, 1]}, [("L[0].Name", "a", "b")]),
    ],
)
def test_leaves_that_differ_have_their_path(
    wanted: object, actual: object, found: list[tuple[str, Any, Any]]
) -> None:
    assert list(find_unequal(wanted, actual)) == found


def test_a_default_counts_where_the_template_is_silent() -> None:
    defaults: dict[str, object] = {"A": 1, "B": None}

    def found(wanted: dict[str, Any], actual: dict[str, Any]) -> list[tuple[str, object, object]]:
        several = find_undeclared("kind", "name", wanted, actual, defaults, "fix")
        return [(each.key, each.wanted, each.found) for each in several]

    assert found({}, {}) == found({}, {"A": 1}) == found({"A": 2}, {"A": 2}) == []
    assert found({}, {"A": 2, "B": "x"}) == [("A", 1, 2), ("B", "the default", "x")]


def test_a_report_writes_values_short_and_the_environments_name_into_its_commands() -> None:
    report = Report(environment="prod")
    report.add(
        [build_missing_difference("alarm", "a"), build_missing_difference("alarm", "b", "`aws`")]
    )
    assert [each.remedy for each in report.differences] == [
        "it was deleted outside CloudFormation; restore it: `cdk deploy 'prod/*' --revert-drift`",
        "it was deleted outside CloudFormation; `aws`",
    ]
    assert "{environment}" in RESTORE
    assert str(report.differences[1]) == (
        "b: alarm missing: live not there, deployed there; it was deleted outside CloudFormation; `aws`"
    )

    plain = Difference(kind="k", resource="r", key="K", wanted=None, found=None, remedy="fix")
    assert str(plain) == "r: K: k; fix"
    nothing = Difference(kind="k", resource="r", wanted=1, found=None, remedy="fix")
    assert str(nothing) == "r: k: live nothing, deployed 1; fix"
    text = "x" * 160
    full = Difference(kind="k", resource="r", wanted=text, found="x", remedy="fix")
    assert str(full) == f"r: k: live x, deployed {text}; fix"
    cut = Difference(kind="k", resource="r", wanted=f"{text}{text}", found=f"{text}y", remedy="fix")
    assert str(cut) == f"r: k: live …{'x' * 40}y, deployed …{'x' * 160}…; fix"
    longer = Difference(kind="k", resource="r", wanted=text * 3, found="y", remedy="fix")
    assert str(longer) == f"r: k: live y, deployed {text}…; fix"


@pytest.mark.parametrize(
    ("count", "answers", "invoke", "verdict", "words"),
    [
        (0, "compared", True, "holds", "as deployed"),
        (0, "not asked", True, "cannot be told", "as deployed, answers not asked"),
        (0, "not asked", False, "holds", "as deployed, answers not asked"),
        (1, "compared", True, "does not hold", "1 difference"),
        (2, "not asked", False, "does not hold", "2 differences"),
    ],
)
def test_a_report_has_three_verdicts(
    count: int, answers: Any, invoke: bool, verdict: str, words: str
) -> None:
    report = Report(environment="prod", answers=answers, invoke=invoke)
    report.add([build_missing_difference("alarm", "a")] * count)
    assert (report.verdict, report.summary) == (verdict, words)
    told = report.as_json()
    assert (told["ok"], told["verdict"]) == (verdict == "holds", verdict)
