"""`servable replay URL` in this process: what it reads, sends, keeps, prints and exits with."""

import errno
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner, Result

from servable.captured.lines import CapturedRequest, RecordedAnswer
from servable.measured.measurement import LoadTarget
from servable.replay import run as replay_run
from servable.replay.answers import ANSWERS, AnswerLog, AnswerPair, read_pairs
from servable.replay.command import ReplayOptions, _choose_place, _find_objective_ms
from servable.replay.command import replay as command
from servable.replay.compare import page
from servable.replay.compare.output import WORST_FILE
from servable.replay.run import RUN, RUNS, ReplayPace
from tests.conftest import VALID, Environment
from tests.servable.replay.captures import ANSWER, NINE, request, written

# What `servable replay prod` is given without an option.
OPTIONS = ReplayOptions(
    sets=(), place=None, target="local", local=False, variant=None, against=None, as_fast=False,
    gate=False, redact=False, as_json=False,
)  # fmt: skip
URL, OTHER = "http://127.0.0.1:9/invocations", "http://127.0.0.1:9/other"
SLOW = replace(ANSWER, latency_ms=20.0)
Model = Callable[[CapturedRequest], RecordedAnswer]


@dataclass
class Sending:
    """The sending process: it answers by `models`, one for each target, and remembers what it was given."""

    models: list[Model]
    targets: list[LoadTarget] = field(default_factory=list)
    pace: ReplayPace | None = None
    sent: list[tuple[float, CapturedRequest]] = field(default_factory=list)
    interrupted_after: int | None = None

    def __call__(self, targets: list[LoadTarget], pace: ReplayPace, *, variables: object) -> Any:
        self.targets, self.pace, self.sent = list(targets), pace, []
        return nullcontext(self)

    def replay(self, requests: Iterable[tuple[float, CapturedRequest]]) -> Iterator[AnswerPair]:
        for moment, captured in requests:
            if len(self.sent) == self.interrupted_after:
                raise KeyboardInterrupt
            self.sent.append((moment, captured))
            several = [model(captured) for model, _ in zip(self.models, self.targets, strict=False)]
            answers = dict(zip(("answered", "other"), several, strict=False))
            yield AnswerPair(request=captured, send_lag_ms=1.0, **answers)

    @property
    def numbers(self) -> list[int]:
        return [int(captured.event_id.removeprefix("event-")) for _, captured in self.sent]


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sending:
    """Six captured requests, a second apart, in captured/x.jsonl of the current folder."""
    sending = Sending([lambda captured: SLOW] * 2)
    monkeypatch.setattr(replay_run, "ReplaySender", sending)
    # Its pictures take a second; test_page.py is about them.
    monkeypatch.setattr(page, "write_page", _written_page)
    monkeypatch.setattr("servable.replay.command.enable_ctrl_c", lambda: None)
    monkeypatch.chdir(tmp_path)
    several = [request(number, time=NINE + number + 0.5) for number in range(6)]
    several[1] = replace(several[1], content_type="text/csv")
    several[2] = replace(several[2], custom_attributes="tier=gold")
    written(tmp_path / "captured" / "x.jsonl", *several)
    return sending


def _written_page(folder: Path, comparison: object, **given: object) -> Path:
    file = folder / "report.html"
    file.write_text(json.dumps(given, default=str))
    return file


def ran(*options: str) -> Result:
    arguments = [URL, "--captured", "captured", *options]
    return CliRunner().invoke(command, arguments, standalone_mode=False, color=False)


def printed(*options: str) -> Any:
    return json.loads(ran("--json", *options).stdout)


def folders() -> list[Path]:
    return sorted(file.parent for file in RUNS.glob("*/run.json"))


def fail(captured: CapturedRequest) -> RecordedAnswer:
    return RecordedAnswer(body=b"", content_type="", error="timeout")


def other_score(captured: CapturedRequest) -> RecordedAnswer:
    changed = captured.event_id == "event-3"
    return replace(SLOW, body=b'{"outputs":[0.75]}') if changed else SLOW


# --- which requests are sent, where to, and when
def test_all_requests_are_sent_to_the_address_and_another_at_the_captured_pace(
    sending: Sending, environment: Environment
) -> None:
    ran()
    assert (sending.numbers, [target.url for target in sending.targets]) == ([*range(6)], [URL])
    ran("--against", OTHER)
    assert [target.url for target in sending.targets] == [URL, OTHER]

    for options in ([], ["--as-fast"]):
        ran(*options)
        assert sending.pace == ReplayPace(as_fast=bool(options))
    alarms = environment(VALID + "[alarms]\np99_latency_ms = 70\n")
    assert [_find_objective_ms(loaded) for loaded in (alarms, None)] == [70.0, None]


# --- options that cannot be combined, and values that are none


def test_wrong_use_is_said_before_anything_is_sent(sending: Sending) -> None:
    cases: list[tuple[tuple[str, ...], str]] = [
        (("--variant", "primary"), "apply to an environment, not to a URL"),
        (("--target", "deployed"), "apply to an environment, not to a URL"),
        (("--local",), "apply to an environment, not to a URL"),
        (("--against", "main"), "a URL can be compared only with another URL"),
        (("--against", "ftp://x"), "pass a complete URL"),
    ]
    for options, problem in cases:
        failed = ran(*options).exception
        assert isinstance(failed, click.UsageError)
        assert (problem in str(failed), sending.sent) == (True, [])


def test_without_a_place_only_a_pipelines_gate_passes(sending: Sending, prod: Path) -> None:
    for arguments in ([URL], ["prod"]):
        failed = CliRunner().invoke(command, arguments, standalone_mode=False).exception
        assert isinstance(failed, click.UsageError)
        assert str(failed).startswith("no captured requests: pass --captured PLACE")
    ended = CliRunner().invoke(command, ["prod", "--gate"], standalone_mode=False)
    assert (ended.return_value, "nothing is replayed" in ended.output) == (0, True)


def test_an_option_comes_before_the_files_own_place(
    environment: Environment, project: Path
) -> None:
    for stated in ["captured", "s3://bucket/prefix"]:
        loaded = environment(VALID + f'[replay]\ncaptured = "{stated}"\n')
        place = stated if "://" in stated else str(project / stated)
        assert _choose_place("prod", loaded, OPTIONS) == place
        assert _choose_place("prod", loaded, replace(OPTIONS, place="given")) == "given"


# --- what cannot be replayed
def test_a_place_that_is_not_there_ends_with_2_and_lines_that_are_skipped_are_named(
    sending: Sending,
) -> None:
    ended = ran("--captured", "nowhere")
    assert ended.return_value == 2
    assert ended.stderr.startswith("servable replay: nowhere: no such file or folder")

    file = Path("captured/x.jsonl")
    file.write_bytes(file.read_bytes() + b"{}\n")
    ended = ran()
    assert "x.jsonl, line 7: skipped: it isn't a data capture record" in ended.stderr
    assert len(sending.sent) == 6

    file.write_bytes(b"{}\n" * 3)
    ended = ran()
    assert (ended.return_value, len(folders())) == (2, 1)
    assert "captured: no request to send: 3 lines were read" in ended.stderr


# --- what is printed, and the exit code
def test_what_was_answered_is_printed_and_exits_0(sending: Sending) -> None:
    ended = ran()
    (folder,) = folders()
    first, second, *_ = ended.stdout.splitlines()
    assert (ended.return_value, first) == (0, "6 of 6 requests got a response")
    assert second.startswith("latency p50 20.")
    assert "; sent late p50 1.0 ms, p99 1.0 ms" in second
    plan = "6 requests from 2026-11-21 09:00:00 UTC to 2026-11-21 09:00:05 UTC, at the captured rate: 5 s"
    assert plan in ended.stderr
    assert ((folder / WORST_FILE).exists(), "differ most" in ended.stderr) == (False, False)
    assert len(ran("--json").stdout.splitlines()) == 1


def test_a_difference_fails_only_with_a_gate_and_a_failed_request_always(sending: Sending) -> None:
    sending.models = [other_score]
    found = printed()
    (folder,) = folders()
    assert Path(found["folder"]) in (folder.resolve(), folder)
    assert found["latency_ms"]["p50"] == pytest.approx(20, rel=0.03)
    compared = found["comparison"]
    assert (compared["compared"], compared["differing_rows"], compared["gate"]) == (6, 1, None)
    ended = ran()
    assert (ended.return_value, "gate:" in ended.stdout) == (0, False)
    assert found["verdict"] == "holds"

    sending.models = [fail]
    ended = ran()
    assert (ended.return_value, "6 failed: timeout" in ended.stdout) == (1, True)
    assert printed()["verdict"] == "does not hold"


@pytest.mark.parametrize(
    ("rows", "model", "ends"),
    [
        (1, other_score, (1, "gate: NOT met", "does not hold")),
        (1, lambda captured: captured.answer, (3, "gate: cannot be told", "cannot be told")),
        (300, lambda captured: captured.answer, (0, "gate: met", "holds")),
    ],
    ids=["changed", "the same in too few rows", "the same"],
)
def test_the_gate_decides_the_exit_code(
    sending: Sending, tmp_path: Path, rows: int, model: Model, ends: tuple[int, str, str]
) -> None:
    answer = replace(SLOW, body=json.dumps({"outputs": [0.5] * rows}).encode())
    several = [request(number, answer=answer) for number in range(10)]
    file = written(tmp_path / "captured" / "x.jsonl", *several)
    sending.models = [model]
    ended = ran("--gate")
    gate = [line for line in ended.stdout.splitlines() if line.startswith("gate: ")]
    assert (ended.return_value, gate[0], printed("--gate")["verdict"]) == ends

    file.write_bytes(file.read_bytes() + b"{}\n")
    assert "gate: 1 of 11 captured lines were skipped" in ran("--gate").stdout


def test_the_other_targets_answers_are_expected_until_interrupted(sending: Sending) -> None:
    sending.models = [lambda captured: SLOW, other_score]
    assert printed("--against", OTHER, "--gate")["comparison"]["differing_rows"] == 1
    sending.interrupted_after = 3
    assert printed()["verdict"] == "cannot be told"


# --- what is kept
def test_a_finished_run_keeps_its_answers_and_is_not_gone_on_with(sending: Sending) -> None:
    ran()
    (folder,) = folders()
    assert [pair.answered for pair in read_pairs(folder)] == [SLOW] * 6
    stored = json.loads((folder / RUN).read_bytes())
    assert (stored["finished"], stored["result"]["answered"]) == (True, 6)
    assert stored["question"]["what"] == URL
    ran()
    assert len(sending.sent) == 6
    for number, unreadable in enumerate(("", "[]", "{}"), start=3):
        for each in folders():
            (each / RUN).write_text(unreadable)
        ran()
        assert (len(folders()), len(sending.sent)) == (number, 6)


def test_a_report_and_the_requests_that_differ_most_are_written(sending: Sending) -> None:
    sending.models = [other_score]
    ended = ran()
    (folder,) = folders()
    worst = (folder / WORST_FILE).read_bytes().splitlines()
    assert [json.loads(line)["eventMetadata"]["eventId"] for line in worst] == ["event-3"]
    assert "report.html: report with charts" in ended.stderr
    assert "worst.jsonl: the requests that differ most" in ended.stderr
    assert json.loads((folder / "report.html").read_text()) == {
        "title": f"{URL} against captured responses",
        "where": "captured: captured",
        "gate": None,
    }


def test_an_unwritten_page_costs_no_comparison(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("servable.replay.command.write_worst_requests", full)
    ended = ran()
    assert isinstance(ended.exception, OSError)
    assert "compared: 6 of 6 requests" in ended.stdout


def test_redact_keeps_no_custom_attribute(sending: Sending) -> None:
    sending.models = [lambda captured: replace(SLOW, body=b'{"outputs":[0.75]}')]
    ran("--redact")
    (folder,) = folders()
    assert [captured.custom_attributes for _, captured in sending.sent].count("tier=gold") == 1
    kept = (folder / WORST_FILE).read_bytes() + (folder / ANSWERS).read_bytes()
    assert (b"tier=gold" in kept, kept.count(b"event-")) == (False, 12)


# --- a run that is interrupted, and goes on
def test_an_interrupted_replay_exits_130_and_is_continued_and_failures_count(
    sending: Sending,
) -> None:
    sending.interrupted_after = 2
    ended = ran("--gate")
    assert (ended.return_value, "2 of 6 requests got a response" in ended.stdout) == (130, True)
    assert "interrupted; run the same command again to send the remaining requests" in ended.stderr
    assert "gate: " not in ended.stdout
    sending.interrupted_after = None
    ended = ran("--json")
    found = json.loads(ended.stdout)
    assert (sending.numbers, found["answered"]) == ([2, 3, 4, 5], 6)
    assert found["comparison"]["compared"] == 6
    assert f"continuing {found['folder']}; delete this folder to start over" in ended.stderr

    sending.interrupted_after, sending.models = 2, [fail]
    ran()
    sending.interrupted_after, sending.models = None, [lambda captured: SLOW]
    assert printed()["failures"] == {"timeout": 2}


@pytest.mark.parametrize(
    "options",
    [["--as-fast"], ["--against", OTHER], ["--redact"], ["--captured", "captured/x.jsonl"]],
)
def test_other_options_are_another_run(sending: Sending, options: list[str]) -> None:
    sending.interrupted_after = 0
    ran()
    ran(*options)
    assert len(folders()) == 2


def test_a_run_that_another_process_is_at_is_left_to_it(sending: Sending) -> None:
    sending.interrupted_after = 1
    ran()
    (folder,) = folders()
    with AnswerLog(folder):
        ended = ran()
    assert (ended.return_value, "another replay is running here" in ended.stderr) == (2, True)
