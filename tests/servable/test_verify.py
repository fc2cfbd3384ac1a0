"""`servable verify` and `servable doctor` in a pipeline: exit codes, and JSON for programs."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner, Result

from infra.parameters.loading import load
from model_packaging.refusal import PackagingError
from servable.doctor import command as doctor_command
from servable.doctor.machine import CheckResult
from servable.plan.synthesis import SynthesisedStack
from servable.project.account import choose_remedy
from servable.verify import command as verify_command
from servable.verify.alarms import compare_latency
from servable.verify.command import compare_template
from servable.verify.deployed import DeployedStack
from servable.verify.difference import Answers, Difference, Report
from tests.conftest import VALID, valid

DIFFERENCE = Difference(
    kind="drifted weight", resource="ranker/primary", wanted=9, found=5, remedy="deploy again"
)


@pytest.fixture
def in_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "prod.toml").write_text(VALID)
    monkeypatch.chdir(project)
    return monkeypatch


def verified(
    patch: pytest.MonkeyPatch, answer: Any, *more: str, answers: Answers = "compared"
) -> Result:
    def found(*_: Any, invoke: bool) -> Report:
        if isinstance(answer, Exception):
            raise answer
        return Report(environment="prod", differences=answer, answers=answers, invoke=invoke)

    patch.setattr(verify_command, "compare_environment", found)
    return CliRunner().invoke(verify_command.verify, ["prod", *more], standalone_mode=False)


def test_the_exit_code_and_json_tell_differences_and_whether_answers_are_known(
    in_project: pytest.MonkeyPatch,
) -> None:
    assert verified(in_project, []).return_value == 0
    answers: Answers
    for answers in ("not asked", "not compared"):
        ran = verified(in_project, [], answers=answers)
        assert (ran.return_value, ran.stdout) == (3, f"prod  as deployed, answers {answers}\n")
    assert verified(in_project, [], "--no-invoke", answers="not asked").return_value == 0
    parsed = json.loads(verified(in_project, [], "--json", answers="not asked").stdout)
    assert (parsed["ok"], parsed["verdict"]) == (False, "cannot be told")
    report = Report(environment="prod", invoke=False)
    assert (report.verdict, report.summary) == ("holds", "as deployed, answers not asked")

    ran = verified(in_project, [DIFFERENCE])
    assert ran.return_value == 1
    assert ran.stderr == "ranker/primary: drifted weight: live 5, deployed 9; deploy again\n"
    parsed = json.loads(verified(in_project, [DIFFERENCE], "--json").stdout)
    assert (parsed["ok"], parsed["differences"][0]["kind"]) == (False, "drifted weight")

    failure = PackagingError(Path("AWS"), "could not be asked", "give credentials")
    ran = verified(in_project, failure)
    assert ran.return_value == 2
    assert ran.stderr == "servable verify: AWS: could not be asked; give credentials\n"


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
        difference = Difference(kind=kind, resource="x", wanted=5, found=2, remedy="deploy")
        assert str(difference) == f"x: {kind}: {said}; deploy"
    for old, new in [("100", "120"), ("", "all")]:
        wanted, found = (f"{'before ' * 60}{value}{' after' * 60}" for value in (new, old))
        difference = Difference(kind="model", resource="x", wanted=wanted, found=found, remedy="y")
        assert f"before {old} after" in str(difference)
        assert f"before {new} after" in str(difference)

    assert differing(limit=5, text=5, seen=5) == ["Properties.Threshold"]
    assert differing(seen=5) == ["Properties.DashboardBody.Fn::Join[1][2]"]
    assert differing(text=5) == ["Properties.AlarmDescription"]


def differing(**changed: int) -> list[str]:
    """Keys of the differences between a deployed stack of zeros and a file with these numbers."""

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

    stack = SynthesisedStack(kind="endpoint", name="s", template=made(**changed))
    deployed = DeployedStack(account=Mock(), name="s", status="", template=made(), resources=())
    return [difference.key for difference in compare_template(stack, deployed)]


def test_the_verdict_of_doctor_is_its_worst_check_and_it_says_which_pattern_selects_stacks(
    in_project: pytest.MonkeyPatch,
) -> None:
    in_project.setattr(doctor_command, "check_machine", lambda root: [])
    in_project.setattr("servable.doctor.account.check_account", lambda *given: [])
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
        in_project.setattr(doctor_command, "check_machine", Mock(return_value=looks))
        ran = CliRunner().invoke(doctor_command.doctor, ["--json"], standalone_mode=False)
        node, last = json.loads(ran.stdout)
        assert (ran.return_value, node["mend"]) == (code, "install it")
        assert (last["name"], last["state"], last["said"]) == ("verdict", state, verdict)


def test_the_remedy_is_to_start_the_local_aws_only_if_it_has_stopped() -> None:
    stopped = EndpointConnectionError(endpoint_url="http://127.0.0.1:1/")
    assert 'eval "$(servable local up)"' in choose_remedy(stopped, "give credentials")
    away = EndpointConnectionError(endpoint_url="https://sts.eu-west-1.amazonaws.com/")
    assert choose_remedy(away, "give credentials") == "give credentials"


def test_a_minute_of_the_clock_is_said_without_its_seconds(project: Path) -> None:
    (project / "environments" / "prod.toml").write_text(VALID)
    (loaded,) = load(project, project / "environments")
    updated = datetime(2026, 11, 23, 10, 12, 3, 456, tzinfo=timezone(timedelta(hours=1)))
    account = Mock()
    account.client("sagemaker").describe_endpoint.return_value = {"LastModifiedTime": updated}
    account.client("cloudwatch").get_metric_statistics.return_value = {"Datapoints": []}
    notes = list(compare_latency(account, valid(loaded).environment, {}))
    assert notes == ["primary: no requests in the first 15 minutes since 2026-11-23 09:12 UTC"]
