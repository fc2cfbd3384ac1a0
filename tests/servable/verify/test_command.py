"""`servable verify` and `doctor`: differences in words, exit codes, and JSON for programs."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner, Result

from model_packaging.refusal import PackagingError
from servable.doctor import command as doctor_command
from servable.doctor.machine import CheckResult
from servable.plan.synthesis import SynthesisedStack
from servable.project.account import choose_remedy
from servable.verify import command as verify_command
from servable.verify import difference as differences
from servable.verify.command import compare_template
from servable.verify.deployed import UNKNOWN, DeployedStack
from servable.verify.difference import RESTORE, Answers, Difference, Report

DIFFERENCE = Difference("drifted weight", "ranker/primary", "deploy again", wanted=9, found=5)


def test_the_exit_code_and_json_tell_differences_and_whether_answers_are_known(
    prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verified(answer: Any, *more: str, answers: Answers = "compared") -> Result:
        def found(*_: Any, invoke: bool) -> Report:
            if isinstance(answer, Exception):
                raise answer
            return Report(environment="prod", differences=answer, answers=answers, invoke=invoke)

        monkeypatch.setattr(verify_command, "compare_environment", found)
        return CliRunner().invoke(verify_command.verify, ["prod", *more], standalone_mode=False)

    assert verified([]).return_value == 0
    answers: Answers
    for answers in ("not asked", "not compared"):
        ran = verified([], answers=answers)
        assert (ran.return_value, ran.stdout) == (3, f"prod  as deployed, answers {answers}\n")
    assert verified([], "--no-invoke", answers="not asked").return_value == 0
    parsed = json.loads(verified([], "--json", answers="not asked").stdout)
    assert (parsed["ok"], parsed["verdict"]) == (False, "cannot be told")

    ran = verified([DIFFERENCE])
    said = "ranker/primary: drifted weight: live 5, deployed 9; deploy again\n"
    assert (ran.return_value, ran.stderr) == (1, said)
    parsed = json.loads(verified([DIFFERENCE], "--json").stdout)
    assert (parsed["ok"], parsed["differences"][0]["kind"]) == (False, "drifted weight")

    ran = verified(PackagingError(Path("AWS"), "could not be asked", "give credentials"))
    said = "servable verify: AWS: could not be asked; give credentials\n"
    assert (ran.return_value, ran.stderr) == (2, said)


def test_a_report_has_the_latency_of_each_variant(capsys: pytest.CaptureFixture[str]) -> None:
    first = {"p99_latency_ms": 12.5, "alarm_ms": 100, "minutes": 1}
    measured = {"a": first, "b": {**first, "alarm_ms": None, "minutes": 3}}
    verify_command._print_report(Report(environment="prod", measured=measured))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  a: p99 12.5 ms in the first minute; alarm at 100 ms",
        "  b: p99 12.5 ms in the slowest of the first 3 minutes; no alarm",
    ]


def test_each_value_of_a_difference_is_named_once_by_what_changed() -> None:
    words = {"not as in the file": "deployed 2, in the file 5", "golden answer": "got 2, wanted 5"}
    for kind, said in words.items():
        difference = Difference(kind, "x", "deploy", wanted=5, found=2)
        assert str(difference) == f"x: {kind}: {said}; deploy"
    for old, new in [("100", "120"), ("", "all")]:
        wanted, found = (f"{'before ' * 60}{value}{' after' * 60}" for value in (new, old))
        said = str(Difference("model", "x", "y", wanted=wanted, found=found))
        assert [f"before {value} after" in said for value in (old, new)] == [True, True]

    def made(limit: int = 0, text: int = 0, seen: int = 0) -> dict[str, Any]:
        body = {"Fn::Join": ["", ["{", {"Ref": "AWS::Region"}, f"above {seen}"]]}
        properties = {
            "CloudWatch::Alarm": {"Threshold": limit, "AlarmDescription": f"above {text}"},
            "CloudWatch::Dashboard": {"DashboardBody": body},
            "SSM::Parameter": {"Value": f"{limit}{text}{seen}"},
        }
        return {"Resources": {
            kind: {"Type": f"AWS::{kind}", "Properties": each} for kind, each in properties.items()
        }}  # fmt: skip

    deployed = DeployedStack(account=Mock(), name="s", status="", template=made(), resources=())
    for changed, key in (
        ({"limit": 5, "text": 5, "seen": 5}, "Threshold"),
        ({"seen": 5}, "DashboardBody.Fn::Join[1][2]"),
        ({"text": 5}, "AlarmDescription"),
    ):
        stack = SynthesisedStack(kind="endpoint", name="s", template=made(**changed))
        keys = [difference.key for difference in compare_template(stack, deployed)]
        assert keys == [f"Properties.{key}"]


def test_the_verdict_of_doctor_is_its_worst_check_and_it_says_which_pattern_selects_stacks(
    prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_command, "check_machine", lambda root: [])
    monkeypatch.setattr("servable.doctor.account.check_account", lambda *given: [])
    ran = CliRunner().invoke(doctor_command.doctor, ["prod"], standalone_mode=False)
    assert "`cdk deploy 'prod/*'` deploys prod; `cdk deploy prod` matches no stack" in ran.stdout
    cases: list[tuple[Any, int, str, str]] = [
        ("ok", 0, "ok", "holds"),
        ("open", 0, "ok", "holds"),
        ("problem", 1, "problem", "does not hold"),
        ("unknown", 3, "unknown", "cannot be told"),
    ]
    for each, code, state, verdict in cases:
        looks = [CheckResult(name="Node", state=each, said="20", mend="install it")]
        monkeypatch.setattr(doctor_command, "check_machine", Mock(return_value=looks))
        ran = CliRunner().invoke(doctor_command.doctor, ["--json"], standalone_mode=False)
        node, last = json.loads(ran.stdout)
        assert (ran.return_value, node["mend"]) == (code, "install it")
        assert (last["name"], last["state"], last["said"]) == ("verdict", state, verdict)


def test_the_remedy_is_to_start_the_local_aws_only_if_it_has_stopped() -> None:
    stopped = EndpointConnectionError(endpoint_url="http://127.0.0.1:1/")
    assert 'eval "$(servable local up)"' in choose_remedy(stopped, "give credentials")
    away = EndpointConnectionError(endpoint_url="https://sts.eu-west-1.amazonaws.com/")
    assert choose_remedy(away, "give credentials") == "give credentials"


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
        assert differences.is_same(wanted, actual) is equal
    (found,) = differences.find_changes("kind", "name", 1, 2, "fix", "B")
    assert (found.key, found.wanted, found.found, found.remedy) == ("B", 1, 2, "fix")


def test_leaves_that_differ_have_their_path() -> None:
    cases: list[tuple[object, object, list[tuple[str, Any, Any]]]] = [
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
    ]
    for wanted, actual, found in cases:
        assert list(differences.find_unequal(wanted, actual)) == found


def test_a_default_counts_where_the_template_is_silent() -> None:
    defaults: dict[str, object] = {"A": 1, "B": None}

    def found(wanted: dict[str, Any], actual: dict[str, Any]) -> list[tuple[str, object, object]]:
        several = differences.find_undeclared("kind", "name", wanted, actual, defaults, "fix")
        return [(each.key, each.wanted, each.found) for each in several]

    assert found({}, {}) == found({}, {"A": 1}) == found({"A": 2}, {"A": 2}) == []
    assert found({}, {"A": 2, "B": "x"}) == [("A", 1, 2), ("B", "the default", "x")]


def test_a_report_writes_values_short_and_the_environments_name_into_its_commands() -> None:
    report = Report(environment="prod")
    report.add(
        differences.build_missing_difference("alarm", *given) for given in (("a",), ("b", "`aws`"))
    )
    assert [each.remedy for each in report.differences] == [
        "it was deleted outside CloudFormation; restore it: `cdk deploy 'prod/*' --revert-drift`",
        "it was deleted outside CloudFormation; `aws`",
    ]
    assert "{environment}" in RESTORE
    assert str(report.differences[1]) == (
        "b: alarm missing: live not there, deployed there; it was deleted outside CloudFormation; `aws`"
    )

    assert str(Difference("k", "r", "fix", key="K")) == "r: K: k; fix"
    text = "x" * 160
    for wanted, found, said in (
        (1, None, "live nothing, deployed 1"),
        (text, "x", f"live x, deployed {text}"),
        (text + text, f"{text}y", f"live …{'x' * 40}y, deployed …{text}…"),
        (text * 3, "y", f"live y, deployed {text}…"),
    ):
        difference = Difference("k", "r", "fix", wanted=wanted, found=found)
        assert str(difference) == f"r: k: {said}; fix"


def test_a_report_has_three_verdicts() -> None:
    cases: list[tuple[int, Any, bool, str, str]] = [
        (0, "compared", True, "holds", "as deployed"),
        (0, "not asked", True, "cannot be told", "as deployed, answers not asked"),
        (0, "not asked", False, "holds", "as deployed, answers not asked"),
        (1, "compared", True, "does not hold", "1 difference"),
        (2, "not asked", False, "does not hold", "2 differences"),
    ]
    for count, answers, invoke, verdict, words in cases:
        report = Report(environment="prod", answers=answers, invoke=invoke)
        report.add([differences.build_missing_difference("alarm", "a")] * count)
        assert (report.verdict, report.summary) == (verdict, words)
        told = report.as_json()
        assert (told["ok"], told["verdict"]) == (verdict == "holds", verdict)
