"""`servable check`: every finding before anything is deployed, exit codes, JSON, and what --explain says."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import hypothesis.strategies as st
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings

from infra.parameters.finding import Finding, Severity, build_file_error
from infra.policy.container import ContainerSettings, find_variable
from servable.check.command import check
from servable.console.findings import format_terminal_lines, print_lines
from tests.checkouts import ROOT
from tests.conftest import VALID

# What would make a check wait, or need what is not there.
HEAVY = ("aws_cdk", "jsii", "botocore", "numpy", "tensorflow")
Run = Callable[..., Result]
TWO = VALID + "min_instances = 2\nmax_instances = 2\n"
TEXT = VALID.replace("ml.c5.xlarge", "ml.g4dn.12xlarge") + "container = { tfs_processes = 8 }\n"


Explain = Callable[[str], dict[str, Any]]


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
    run: Run, project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
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
    files = itertools.cycle(["dev.toml", "base.toml"])
    severities = itertools.cycle([Severity.WARNING, Severity.ERROR, Severity.WARNING])
    rows = zip(range(count), files, severities, strict=False)
    return [replace(wrong, key=f"k{n}", file=file, severity=level) for n, file, level in rows]


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


@pytest.fixture
def explain(run: Run, project: Path) -> Explain:
    """Return the settings of the file with a text, by their name."""

    def explain(text: str) -> dict[str, Any]:
        (project / "environments" / "dev.toml").write_text(text)
        found = json.loads(run("dev", "--explain", "--json").stdout)["dev"]["settings"]
        return {one["name"]: one for one in found}

    return explain


def test_every_setting_has_its_line_value_origin_and_reason(run: Run, project: Path) -> None:
    (project / "environments" / "dev.toml").write_text(TEXT)
    stdout = run("dev", "--explain").stdout
    assert stdout.count("dev, variant primary\n") == 1
    rows = (line.split(maxsplit=3) for line in stdout.splitlines())
    lines = {words[0]: words for words in rows if words}
    for name in ContainerSettings.model_fields:
        assert lines[name][-1].endswith(f" [{find_variable(name)}]")
    said = "from the file [SAGEMAKER_TFS_INSTANCE_COUNT]"
    assert lines["tfs_processes"][1:] == ["8", "file", said]
    margin = "[SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN]"
    divided = f"the image divides it by all 8 processes: each gets 40% of its GPU {margin}"
    assert lines["gpu_memory_margin"][1:] == ["-2.2", "derived", divided]
    assert lines["inference_ami"][1] == "al2-ami-sagemaker-inference-gpu-3-1"
    assert "price of 2025-01" in stdout


def test_scaling_batching_and_the_peak_are_explained(explain: Explain) -> None:
    scaled = "scaling = { max_rps_per_instance = 12 }\n[traffic]\npeak_rps = 100\n"
    line = explain(VALID + scaled)["instances at the peak"]
    assert (line["value"], line["reason"]) == ("17", "100 requests/s / (12 x 0.5)")
    batched = explain(VALID + "container = { batching = { max_batch_size = 64 } }\n")
    assert {name: batched[name]["origin"] for name in batched if name.startswith("batching.")} == {
        "batching.max_batch_size": "file",
        "batching.timeout_micros": "image",
        "batching.batch_threads": "derived",
        "batching.max_enqueued_batches": "derived",
    }
    scaling = "{ max_concurrency_per_instance = 8, scale_in_cooldown_seconds = 600 }"
    found = explain(f"{VALID}scaling = {scaling}\n")
    for name, value, origin in (
        ("routing", "least_outstanding_requests", "derived"),
        ("scale_out_cooldown_seconds", "210", "derived"),
        ("scale_in_cooldown_seconds", "600", "file"),
        ("target, concurrent requests", "4", "sizing"),
    ):
        assert (found[name]["value"], found[name]["origin"]) == (value, origin)


def test_it_says_which_errors_roll_back_and_what_becomes_of_a_model_with_a_fault(
    explain: Explain, project: Path
) -> None:
    counted, canary = "[alarms]\nerror_4xx_percent = 5\n", '[rollout]\nstrategy = "canary"\n'
    at_once = '[rollout]\nstrategy = "all_at_once"\n'
    for lines, kinds, reason in (
        (canary, "5xx", "to count 4xx, set alarms.error_4xx_percent or"),
        (f"{counted}{canary}rollback_on_4xx = false\n", "5xx",
         "rollback_on_4xx is false, so 4xx responses don't count"),
        (counted + canary, "5xx, 4xx",
         "4xx above the old fleet's percentage count, where AWS publishes errors by fleet"),
        (counted + at_once, "5xx, 4xx", "all 4xx count, because the first share is the whole fleet"),
    ):  # fmt: skip
        line = explain(f"{TWO}{lines}")["rolled back by"]
        assert (line["value"], line["reason"].startswith(reason)) == (kinds, True)

    (project / "golden.json").write_text("{}")
    rolling = 'model_error_percent = 2\n[rollout]\nstrategy = "rolling"\n'
    golden = canary + 'golden_requests = { body = "golden.json" }\n'
    for lines, fault, value, reason in (
        (canary, "answers 500", "back after 4 minutes", "seen by 5xx"),
        (canary, "answers 400", "goes live", "no alarm sees it; add"),
        (canary, "answers slowly", "goes live", "no alarm sees it; set"),
        (rolling, "does not answer", "back after 4 minutes", "seen by model-errors"),
        (golden, "answers 400", "back after 3 minutes", "seen by golden-requests"),
    ):
        faulty = f"{TWO}[alarms]\nwindow_minutes = 4\n{lines}"
        line = explain(faulty)[f"a model that {fault}"]
        assert (line["value"], line["reason"].startswith(reason)) == (value, True)
