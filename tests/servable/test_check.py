"""`servable check`: every finding before anything is deployed; exit codes and JSON for programs."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
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


Run = Callable[..., Result]


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`servable check` as servable.main runs it: the command's return value is the exit code."""
    (project / "environments" / "dev.toml").write_text(VALID)
    (project / "environments" / "prod.toml").write_text(VALID + "colour = 1\n")
    monkeypatch.chdir(project)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(check, arguments, standalone_mode=False, color=False)

    return call


def test_a_clean_environment_is_ok_exits_0_and_says_what_was_not_checked(
    run: Run,
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = run("dev")
    assert (ran.return_value, ran.stdout) == (0, "dev  ok, 8 not checked\n")
    assert ran.stderr.splitlines() == [
        "not checked: whether requests and responses are within SageMaker's size limits; give "
        "traffic.answer_bytes and traffic.request_bytes (2 checks)",
        "not checked: whether SageMaker accepts the change to the deployed endpoint; give --against "
        "REF with the deployed revision (6 checks)",
    ]
    assert "request-too-large" in run("dev", "--explain").stderr
    # The project is where cdk.json is, whatever the working folder.
    (project / "cdk.json").write_text("{}")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    ran = run("dev", "--environments", str(project / "environments"))
    assert ran.stdout == "dev  ok, 8 not checked\n"


def test_a_finding_is_on_stderr_exits_1_and_has_its_line_key_and_remedy_in_json(
    run: Run, project: Path
) -> None:
    ran = run()
    assert ran.return_value == 1
    assert ran.stderr.startswith("environments/prod.toml:12: variants.primary.colour: unknown key")
    ran = run("dev", "--json")
    assert (ran.return_value, json.loads(ran.stdout)["verdict"]) == (0, "holds")
    ran = run("dev", "prod", "--json")
    found = json.loads(ran.stdout)
    assert (ran.return_value, found["verdict"]) == (1, "does not hold")
    (finding,) = found["prod"][:1]
    assert {"file", "key", "given", "problem", "allowed", "remedy", "severity"} <= set(finding)
    text = (project / "environments" / "prod.toml").read_text().splitlines()
    assert text[finding["line"] - 1] == "colour = 1"


def test_an_override_is_checked_and_rules_that_were_not_are_counted_after_an_error(
    run: Run,
) -> None:
    ran = run("dev", "--set", "dev.variants.primary.instance_type=ml.c5.huge")
    assert ran.stderr.startswith("--set dev.variants.primary.instance_type: ")
    assert ran.stderr.splitlines()[0].endswith(" [instance-unknown]")
    assert ("not checked" in ran.stdout, "not checked" in ran.stderr) == (True, False)


def test_where_nothing_is_there_to_check_the_verdict_cannot_be_told(
    run: Run, project: Path
) -> None:
    # An environment called as the verdict is not taken for it.
    (project / "environments" / "verdict.toml").write_text(VALID)
    ran = run("--json")
    assert (isinstance(ran.exception, click.UsageError), ran.stdout) == (True, "")
    for file in (project / "environments").iterdir():
        file.unlink()
    ran = run("--json")
    assert (ran.return_value, json.loads(ran.stdout)) == (3, {"verdict": "cannot be told"})


def test_wrong_use_exits_2_with_the_nearest_environment_or_the_way_to_write_it(run: Run) -> None:
    for arguments, said in (
        (["prdo"], "there is no environment 'prdo'; allowed: dev, prod; did you mean prod?"),
        (["--set", "prod"], "--set prod: expected ENV.KEY=VALUE"),
    ):
        ran = CliRunner().invoke(check, arguments)
        assert (ran.exit_code, said in ran.stderr) == (2, True), ran.stderr


@pytest.mark.long
def test_check_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from servable.main import main\n"
        "for option in '--json', '--explain':\n"
        "    sys.argv[1:] = ['check', option]\n"
        "    try: main()\n"
        "    except SystemExit as done: code = done.code\n"
        f"    print(code, [name for name in {HEAVY} if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines().count("0 []") == 2


def findings(count: int) -> list[Finding]:
    wrong = build_file_error("dev.toml", "models.ranker.code", "is wrong " * 30, "change it " * 20)
    files = ["dev.toml", "base.toml"]
    severities = [Severity.WARNING, Severity.ERROR, Severity.WARNING]
    return [
        replace(wrong, file=files[n % 2], severity=severities[n % 3], key=f"k{n}")
        for n in range(count)
    ]


def test_findings_are_grouped_errors_first_and_sixteen_fit_one_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (accepted,) = findings(1)
    accepted = replace(accepted, severity=Severity.ACKNOWLEDGED)
    print_lines([accepted, *findings(6)])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" is wrong")[0] for line in lines] == [
        "base.toml: k1:",
        "warning: base.toml: k3:",
        "warning: base.toml: k5:",
        "dev.toml: k4:",
        "warning: dev.toml: k0:",
        "warning: dev.toml: k2:",
        "acknowledged: dev.toml: k0:",
    ]

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    print_lines(findings(16), whole=False)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err).splitlines()
    # 16 problems on a line each, the names of two files, and where whole problems are.
    assert len([line for line in lines if not line.startswith("    ")]) == 19
    assert [line for line in lines if len(line) > 80] == []


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
