"""`servable check`: every finding before anything is deployed; exit codes and JSON for programs."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import hypothesis.strategies as st
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings

from infra.parameters.finding import Finding, Severity, build_file_error
from servable.check.command import check
from servable.console.findings import format_terminal_lines, print_lines
from tests.conftest import VALID

ROOT = Path(__file__).resolve().parents[2]
# What would make a check wait, or need what is not there.
HEAVY = ("aws_cdk", "jsii", "botocore", "numpy", "tensorflow")


def run(monkeypatch: pytest.MonkeyPatch, project: Path, *arguments: str) -> Result:
    monkeypatch.chdir(project)
    # As servable.main runs it: the command's return value is the exit code.
    return CliRunner().invoke(
        check, arguments, standalone_mode=False, catch_exceptions=True, color=False
    )


@pytest.fixture
def two(project: Path) -> Path:
    (project / "environments" / "dev.toml").write_text(VALID)
    (project / "environments" / "prod.toml").write_text(VALID + "colour = 1\n")
    return project


def test_a_clean_environment_is_ok_and_exits_0(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run(monkeypatch, two, "dev")
    assert (ran.return_value, ran.stdout) == (0, "dev  ok, 8 not checked\n")


def test_a_finding_is_on_stderr_and_exits_1(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run(monkeypatch, two)
    assert ran.return_value == 1
    assert ran.stderr.startswith("environments/prod.toml:12: variants.primary.colour: unknown key")


def test_rules_that_were_not_checked_are_counted_after_an_error_and_not_named(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run(monkeypatch, two, "dev", "--set", "dev.variants.primary.instance_type=ml.c5.huge")
    assert ("not checked" in ran.stdout, "not checked" in ran.stderr) == (True, False)


def test_json_has_file_key_value_and_remedy(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = json.loads(run(monkeypatch, two, "prod", "--json").stdout)["prod"][0]
    assert {"file", "key", "given", "problem", "allowed", "remedy", "severity"} <= set(finding)


@pytest.mark.parametrize(
    ("names", "code", "verdict"),
    [(("dev",), 0, "holds"), (("dev", "prod"), 1, "does not hold")],
)
def test_json_names_the_verdict_of_all_that_was_checked(
    two: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], code: int, verdict: str
) -> None:
    ran = run(monkeypatch, two, *names, "--json")
    assert (ran.return_value, json.loads(ran.stdout)["verdict"]) == (code, verdict)


def test_where_nothing_is_there_to_check_the_verdict_cannot_be_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run(monkeypatch, project, "--json")
    assert (ran.return_value, json.loads(ran.stdout)) == (3, {"verdict": "cannot be told"})


def test_an_environment_called_as_the_verdict_is_not_taken_for_it(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (two / "environments" / "verdict.toml").write_text(VALID)
    ran = run(monkeypatch, two, "--json")
    assert (isinstance(ran.exception, click.UsageError), ran.stdout) == (True, "")


def test_an_override_is_checked(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run(monkeypatch, two, "dev", "--set", "dev.variants.primary.instance_type=ml.c5.huge")
    assert ran.stderr.startswith("--set dev.variants.primary.instance_type: ")


def servable(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "servable", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_unknown_environment_names_the_nearest_and_exits_2() -> None:
    ran = servable("check", "prdo")
    assert ran.returncode == 2
    assert (
        "there is no environment 'prdo'; allowed: dev, local, prod, staging; did you mean prod?"
    ) in ran.stderr


def test_a_set_that_is_no_assignment_exits_2() -> None:
    ran = servable("check", "--set", "prod")
    assert ran.returncode == 2
    assert "--set prod: expected ENV.KEY=VALUE" in ran.stderr


@pytest.mark.parametrize("option", ["--json", "--explain"])
def test_check_imports_nothing_heavy(option: str) -> None:
    script = (
        f"import sys; sys.argv[1:] = ['check', {option!r}]\n"
        "from servable.main import main\n"
        "try: main()\n"
        "except SystemExit as done: code = done.code\n"
        f"print(code, [name for name in {HEAVY} if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines()[-1] == "0 []"


def test_the_project_is_where_cdk_json_is_whatever_the_working_folder(
    two: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (two / "cdk.json").write_text("{}")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    ran = run(monkeypatch, elsewhere, "dev", "--environments", str(two / "environments"))
    assert ran.stdout == "dev  ok, 8 not checked\n"


def test_what_was_not_checked_is_said_in_words(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run(monkeypatch, two, "dev").stderr.splitlines()
    assert lines == [
        "not checked: whether requests and responses are within SageMaker's size limits; give "
        "traffic.answer_bytes and traffic.request_bytes (2 checks)",
        "not checked: whether SageMaker accepts the change to the deployed endpoint; give --against "
        "REF with the deployed revision (6 checks)",
    ]


def test_explain_names_the_rules_that_were_not_checked(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "request-too-large" in run(monkeypatch, two, "dev", "--explain").stderr


def test_a_finding_ends_with_the_name_that_acknowledge_takes(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run(monkeypatch, two, "dev", "--set", "variants.primary.instance_type=ml.c5.huge")
    assert ran.stderr.splitlines()[0].endswith(" [instance-unknown]")


def test_a_finding_has_the_line_of_its_key_in_json(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = json.loads(run(monkeypatch, two, "prod", "--json").stdout)["prod"][0]
    text = (two / "environments" / "prod.toml").read_text().splitlines()
    assert text[finding["line"] - 1] == "colour = 1"


def test_errors_come_before_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    finding = build_file_error("a.toml", "", "is wrong", "change it")
    print_lines([replace(finding, severity=severity) for severity in reversed(Severity)])
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "a.toml",
        "warning",
        "acknowledged",
    ]


def findings(count: int) -> list[Finding]:
    wrong = build_file_error("dev.toml", "models.ranker.code", "is wrong " * 30, "change it " * 20)
    files = ["dev.toml", "base.toml"]
    severities = [Severity.WARNING, Severity.ERROR, Severity.WARNING]
    return [
        replace(wrong, file=files[n % 2], severity=severities[n % 3], key=f"k{n}")
        for n in range(count)
    ]


def test_the_problems_of_sixteen_findings_fit_one_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    print_lines(findings(16), whole=False)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err).splitlines()
    # 16 problems on a line each, the names of two files, and where whole problems are.
    assert len([line for line in lines if not line.startswith("    ")]) == 19
    assert [line for line in lines if len(line) > 80] == []


def test_findings_are_grouped_by_file_and_errors_come_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_lines(findings(6))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" is wrong")[0] for line in lines] == [
        "base.toml: k1:",
        "warning: base.toml: k3:",
        "warning: base.toml: k5:",
        "dev.toml: k4:",
        "warning: dev.toml: k0:",
        "warning: dev.toml: k2:",
    ]


@settings(max_examples=30)
@given(st.text(max_size=99), st.text(max_size=99), st.integers(20, 150))
def test_a_problem_is_cut_to_the_columns_and_a_remedy_is_wrapped_whole(
    problem: str, remedy: str, columns: int
) -> None:
    finding = build_file_error("a.toml", "k", problem, remedy)
    first, *rest = format_terminal_lines(finding, columns)
    assert len(first) <= columns
    assert " ".join(rest).split() == f"-> {remedy} [{finding.acknowledgement}]".split()
    longest = max(map(len, [*remedy.split(), finding.acknowledgement])) + 9
    assert [line for line in rest if len(line) > max(columns, longest)] == []
