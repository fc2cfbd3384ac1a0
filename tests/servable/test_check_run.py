"""`servable check ENV --run`: what fails in the local container is a finding like any other."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from infra.parameters.finding import Finding, Severity
from servable.check import run as runs
from servable.check.command import check
from servable.check.run import find_run_failures
from servable.serve.serve import PreparedVariant
from servable_local.container.launch import LaunchError
from tests.batches import build_batch_example
from tests.conftest import valid
from tests.findings import message
from tests.preflight.overlay import overlaid
from tests.servable.tune.servers import Server

KNOWN = 'models.ranker.golden = { request = "golden/a.json", answer = "golden/b.json" }\n'
ANSWER = {"predictions": [0.5]}
Answer = tuple[int, Any]


@pytest.fixture
def golden(project: Path) -> Path:
    """golden/a.json and golden/b.json, the ranker's own request and a made-up answer."""
    row = {"feat_ids": [0] * 39, "feat_vals": [0.5] * 39}
    (project / "golden" / "a.json").write_text(json.dumps({"instances": [row]}))
    (project / "golden" / "b.json").write_text(json.dumps(ANSWER))
    return project


class Stub:
    """In the place of the container: answers what it is told, and counts."""

    def __init__(self) -> None:
        self.answer: Callable[[int], Answer] = lambda number: (200, ANSWER)
        self.asked: list[str] = []
        self.started, self.fails = 0, ""
        self.variables: dict[str, dict[str, str]] = {}

    def prepare_batch(self, loaded: Any, job: Any, **how: bool) -> PreparedVariant:
        return self.prepare(loaded, job.name)

    def prepare(self, loaded: Any, variant: str, **how: bool) -> PreparedVariant:
        return PreparedVariant(
            variant=variant, archive=Path("model.tar.gz"), members={}, image="", tensorflow="2.20",
            variables=self.variables.get(variant, {}),
        )  # fmt: skip

    @contextmanager
    def serve(self, served: Any, *, port: int, log: Path) -> Iterator[Any]:
        if self.fails:
            raise LaunchError(self.fails)
        self.started += 1
        self.served = served
        log.write_text('Traceback\nValueError: no such row\n{"event": "request"}\n')

        def answer(number: int, headers: dict[str, str], body: bytes) -> Any:
            self.asked.append(headers["Content-Type"])
            status, content = self.answer(number)
            return status, {}, json.dumps(content).encode()

        with Server(answer) as server:
            yield server
            assert server.paths <= {"/invocations"}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    stub = Stub()
    monkeypatch.setattr(runs, "serve_locally", stub.serve)
    monkeypatch.setattr(runs, "prepare_variant", stub.prepare)
    monkeypatch.setattr(runs, "prepare_batch", stub.prepare_batch)
    return stub


def found(project: Path, lines: str = KNOWN) -> list[Finding]:
    return list(find_run_failures(valid(overlaid(project, lines)), lambda told: None))


def test_a_golden_request_is_sent_alone_then_at_once_and_is_no_finding_if_answered_as_known(
    golden: Path, stub: Stub
) -> None:
    assert found(golden) == []
    assert stub.asked == ["application/json"] * 5
    assert found(golden, KNOWN + build_batch_example()) == []
    # A batch has a container of its own with the variables of a job.
    assert (stub.started, stub.served.variables["SAGEMAKER_BATCH"]) == (3, "true")


def test_a_rejected_request_is_a_finding_with_its_reason(golden: Path, stub: Stub) -> None:
    stub.answer = lambda number: (200, ANSWER) if number == 0 else (400, {"error": "merged"})
    (one,) = found(golden)
    assert one.problem == "golden/a.json, 4 at once, got 400: merged"

    stub.answer = lambda number: (400, {"error": "x is\nmissing"})
    (one,) = found(golden)
    problem, remedy = (
        "golden/a.json got 400: x is missing",
        "fix the request, the code, or the model",
    )
    assert message(one) == ("models.ranker.golden.request", problem, "", remedy)

    stub.answer = lambda number: (500, {"error": "failed"})
    (one,) = found(golden)
    assert one.problem.endswith("got 500: failed; last log line: ValueError: no such row")


def test_responses_are_held_to_the_known_one_and_to_each_other(golden: Path, stub: Stub) -> None:
    def problems(answers: list[Any], lines: str = KNOWN) -> list[str]:
        stub.answer = lambda number: (200, {"predictions": [answers[number]]})
        return [one.problem for one in found(golden, lines) if one.rule == "run-answer"]

    assert problems([0.50004] * 5) == []
    assert len(problems([0.51] * 5)) == 1
    for answers, said in (
        ([0.5, 0.5, 0.5, 0.7, 0.5], "golden/a.json, 4 at once, got output[0] 0.7, expected 0.5"),
        ([0.5, 0.50001, 0.5, 0.5, 0.5], ""),
        ([{"a": 1}, {"b": 1}] * 3, "responses to the same request differ"),
    ):
        (golden / "golden" / "b.json").write_text(json.dumps({"predictions": [answers[0]]}))
        for lines in (KNOWN, 'models.ranker.golden.request = "golden/a.json"\n'):
            listed = problems(answers, lines)
            assert len(listed) == bool(said)
            for problem in listed:
                assert said in problem
                assert problem.endswith("; responses to the same request differ")


def test_a_container_that_does_not_start_is_a_finding(golden: Path, stub: Stub) -> None:
    stub.fails = "TensorFlow can't load the model:\nOp type not registered 'X'"
    (one,) = found(golden)
    reason = "TensorFlow can't load the model: Op type not registered 'X'"
    assert (one.rule, one.key) == ("run-load", "models.ranker")
    assert one.problem == f"the container of variant primary didn't start: {reason}"

    stub.fails = "no"
    problems = [finding.problem for finding in found(golden, KNOWN + build_batch_example())]
    assert "the container of batch nightly didn't start: no" in problems
    operations = {"SimpleMLCreateModelResource": Severity.NOT_CHECKED, "MyOp": Severity.ERROR}
    for name, severity in operations.items():
        stub.fails = f"TensorFlow can't load the model: Op type not registered '{name}' in …"
        assert [one.severity for one in found(golden)] == [severity]


def test_variants_that_deploy_the_same_are_run_once(golden: Path, stub: Stub) -> None:
    lines = KNOWN + 'variants.other = { model = "ranker", instance_type = "ml.c5.xlarge" }'
    found(golden, lines)
    assert stub.started == 1
    stub.variables = {"other": {"A": "1"}}
    found(golden, lines)
    assert stub.started == 1 + 2


def test_the_body_of_an_update_is_sent_too(golden: Path, stub: Stub) -> None:
    body = 'golden_requests = { body = "golden/a.json", content_type = "text/csv" }'
    found(golden, f'rollout = {{ strategy = "canary", {body} }}\nalarms.p99_latency_ms = 9')
    assert set(stub.asked) == {"text/csv"}


def command(monkeypatch: pytest.MonkeyPatch, project: Path, *arguments: str) -> Result:
    monkeypatch.chdir(project)
    return CliRunner().invoke(check, ["prod", "--run", *arguments], standalone_mode=False)


def test_what_a_run_finds_stands_among_the_findings_in_json(
    golden: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlaid(golden, f'{KNOWN}models.ranker.image = "nowhere"')
    ran = command(monkeypatch, golden)
    assert (stub.started, "prod: not run: fix its errors first" in ran.stderr) == (0, True)

    overlaid(golden, f'{KNOWN}models.ranker.code = "code"')
    ran = command(monkeypatch, golden, "--json")
    assert "golden-request" not in [one["rule"] for one in json.loads(ran.stdout)["prod"]]

    overlaid(golden, KNOWN)
    monkeypatch.setattr("servable.check.command.is_inconclusive", lambda finding: True)
    ran = command(monkeypatch, golden, "--json")
    assert (ran.return_value, json.loads(ran.stdout)["verdict"]) == (3, "cannot be told")

    overlaid(golden, KNOWN)
    stub.answer = lambda number: (400, {"error": "no"})
    ran = command(monkeypatch, golden, "--json")
    rules = [one["rule"] for one in json.loads(ran.stdout)["prod"]]
    assert (ran.return_value, "run-request" in rules) == (1, True)


@pytest.mark.parametrize("as_json", [True, False])
def test_what_an_interrupted_run_has_found_is_printed(
    golden: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    overlaid(golden, KNOWN)
    text = (golden / "environments" / "prod.toml").read_text()
    for name in ("first", "second"):
        named = text.replace('name = "ranker"', f'name = "ranker-{name}"')
        (golden / "environments" / f"{name}.toml").write_text(named)
    answers = iter([(400, {"error": "no"})])

    def interrupt(loaded: Any, report: Any) -> Iterator[Finding]:
        if loaded.name == "second":
            raise KeyboardInterrupt
        stub.answer = lambda number: next(answers, (200, ANSWER))
        yield from find_run_failures(loaded, report)

    monkeypatch.setattr(runs, "find_run_failures", interrupt)
    monkeypatch.chdir(golden)
    arguments = ["first", "second", "prod", "--run", *(["--json"] if as_json else [])]
    ran = CliRunner().invoke(check, arguments, standalone_mode=False)
    assert ran.return_value == 130
    if as_json:
        told = json.loads(ran.stdout)
        rules = {name: {one["rule"] for one in told[name]} for name in ("first", "second", "prod")}
        runs_ = {name: {rule for rule in rules[name] if rule.startswith("run-")} for name in rules}
        assert runs_ == {"first": {"run-request"}, "second": {"run-load"}, "prod": {"run-load"}}
    else:
        assert "got 400: no" in ran.stderr
        assert ran.stderr.count("its run was interrupted") == 2
        assert not [line for line in ran.stdout.splitlines() if " ok" in line]


def test_without_tensorflow_it_says_what_to_install(
    golden: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlaid(golden, KNOWN)
    there = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name == "tensorflow" else there(name, package)

    monkeypatch.setattr("servable.console.extras.find_spec", find_spec)
    said = str(command(monkeypatch, golden).exception)
    assert ("which needs tensorflow" in said, " install`" in said) == (True, True)


def test_a_run_that_called_nothing_is_not_checked_and_exits_3(
    golden: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlaid(golden, 'models.ranker.code = "code"')
    ran = command(monkeypatch, golden)
    assert (ran.return_value, ran.stdout.startswith("prod  ok")) == (3, False)
    add = 'models.ranker.golden.request = "golden/ranker/request.json"'
    assert (
        f"models.ranker: the handler wasn't called: it has no golden request; add {add}"
        in ran.stderr
    )
    (one,) = found(golden, "")
    assert one.severity == Severity.NOT_CHECKED
    assert one.problem.startswith("the model wasn't called:")


def _servable(project: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "servable", "check", "prod", "--run"],
        cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(project / "tmp")},
    )  # fmt: skip


@pytest.fixture
def real(golden: Path) -> Path:
    """The ranker's own golden request, and an answer that is off by 0.1; a TMPDIR of its own."""
    (golden / "tmp").mkdir()
    request = golden / "golden" / "request-rows.json"
    (golden / "golden" / "a.json").write_bytes(request.read_bytes())
    answer = json.loads((golden / "golden" / "answer-rows.json").read_text())
    answer["predictions"][1] += 0.1
    (golden / "golden" / "b.json").write_text(json.dumps(answer))
    overlaid(golden, KNOWN + "variants.primary.container.batching = { max_batch_size = 8 }")
    return golden


@pytest.mark.long
def test_the_real_container_is_asked(real: Path) -> None:
    process = _servable(real)
    _, said = process.communicate()
    assert (process.returncode, "got output[1] 0.53" in said) == (1, True)


@pytest.mark.long
def test_ctrl_c_leaves_no_process_and_no_file(real: Path) -> None:
    process = _servable(real)
    family = psutil.Process(process.pid)
    while not family.children(recursive=True):
        assert process.poll() is None
        time.sleep(0.05)
    children = family.children(recursive=True)
    process.send_signal(signal.SIGINT)
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert (process.returncode, alive, list((real / "tmp").iterdir())) == (130, [], [])
