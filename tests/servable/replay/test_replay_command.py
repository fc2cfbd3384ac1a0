"""`servable replay` as a user runs it: interrupted, killed, resumed; what it sends and what it keeps."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from servable.captured.lines import format_line
from servable.replay.answers import read_pairs
from servable.replay.run import RUNS
from tests.checkouts import ROOT
from tests.conformance.asking import eventually
from tests.servable.replay.captures import NINE, request, written
from tests.servable.replay.test_capture_lines import HOSTILE, INPUT, METADATA
from tests.servable.test_terminal_output import controls
from tests.servable.tune.servers import OK, Server

pytestmark = pytest.mark.long

COUNT = 40


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """40 requests in two seconds."""
    captured = [request(number, time=NINE + 0.05 * number + 0.001) for number in range(COUNT)]
    written(tmp_path / "captured" / "x.jsonl", *captured)
    return tmp_path


def started(folder: Path, url: str, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "servable", "replay", url, "--captured", "captured", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, Any, str]:
    """(exit code, what --json printed, standard error)"""
    out, words = process.communicate(timeout=60)
    return process.returncode, json.loads(out) if out.startswith("{") else out, words


def lines_kept(folder: Path) -> list[int]:
    return sorted(
        pair.request.line for run in (folder / RUNS).glob("*/") for pair in read_pairs(run)
    )


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_same_command_goes_on_after_it_was_ended(place: Path, end: signal.Signals) -> None:
    with Server() as server:
        first = started(place, server.url)
        assert eventually(lambda: len(server.asked) > 10)
        family = psutil.Process(first.pid).children(recursive=True)
        first.send_signal(end)
        code, _, words = ended(first)
        assert eventually(lambda: not any(map(psutil.Process.is_running, family)))
        sent = len(server.asked)
        again, said, _ = ended(started(place, server.url, "--json"))
    assert (code, again) == (130 if end == signal.SIGINT else -9, 0)
    assert "Traceback" not in words
    assert 10 < sent < COUNT
    # A request under way at the end is sent again; what was answered is not.
    assert len(server.asked) - COUNT <= 3
    assert said["answered"] == COUNT
    assert lines_kept(place) == [*range(1, COUNT + 1)]


def test_a_killed_replay_sends_nothing_more_of_what_waits_for_its_moment(tmp_path: Path) -> None:
    """More requests wait than the sending process takes in."""
    hour = [request(number, time=NINE + 3600) for number in range(3000)]
    written(tmp_path / "captured" / "x.jsonl", request(0), *hour)
    with Server() as server:
        process = started(tmp_path, server.url)
        assert eventually(lambda: len(server.asked) > 0)
        family = psutil.Process(process.pid).children(recursive=True)
        assert family
        process.kill()
        ended(process)
        assert eventually(lambda: not any(map(psutil.Process.is_running, family)))


def test_hostile_lines_and_answers_lose_nothing_sent_and_redaction_leaves_nothing_of_a_caller(
    tmp_path: Path,
) -> None:
    metadata = METADATA | {"eventId": None, "inferenceId": "alice", "customAttributes": ["u=alice"]}
    answer = {"observedContentType": "application/json", "encoding": "JSON"}
    data = {"endpointInput": INPUT, "endpointOutput": answer | {"data": '{"outputs": [0.5]}'}}
    good = format_line(request(1))
    lines = [line for hostile in HOSTILE.values() for line in (good, hostile)]
    lines.append(json.dumps({"captureData": data, "eventMetadata": metadata}).encode())
    (tmp_path / "captured").mkdir()
    (tmp_path / "captured" / "x.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    names = json.dumps({"\x1b[2J": 1, "\ud800": 2, "a\ngate: met": 3, "output": 4}).encode()
    with Server((200, OK[1], names)) as server:
        # The caller's is the earliest, so that it stays among those that differ most.
        code, out, words = ended(started(tmp_path, server.url, "--gate", "--redact"))
    assert (code, "Traceback" in words) == (1, False)
    assert lines_kept(tmp_path) == list(range(1, 2 * len(HOSTILE) + 2, 2))
    assert [line for line in out.splitlines() if line.startswith("gate: met")] == []
    assert (controls(out + words), list(tmp_path.rglob("report.html")) != []) == ("", True)
    sent = [headers.get("X-Amzn-SageMaker-Custom-Attributes") for headers, _ in server.asked]
    assert (sent.count("u=alice"), sent.count(None)) == (1, len(HOSTILE))
    files = [file for file in (tmp_path / RUNS).rglob("*") if file.is_file()]
    assert {"answers.jsonl", "worst.jsonl", "report.html"} <= {file.name for file in files}
    assert [file for file in files if b"alice" in file.read_bytes()] == []
    assert "alice" not in out + words
