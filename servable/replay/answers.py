"""The responses of a replay: a log that survives a kill, and counts.

    for pair in read_pairs(run_folder):
        compare(pair.expected_response, pair.answered)

Each line is a record of data capture with two more keys, so that the file can itself be replayed:
"replayed", the responses that came, and "check", the CRC-32 of the text before it. Lines are only
appended; a line that is cut off or damaged is skipped.
"""

import base64
import fcntl
import json
import os
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from model_packaging.beside import create_private_folder, open_private
from servable.captured.lines import (
    CapturedRequest,
    CaptureLineError,
    RecordedAnswer,
    format_line,
    parse_request,
)
from servable.measured.precision import Latencies
from servable.replay.index import CaptureIndex

# The file of requests and responses in a run's folder.
ANSWERS = "answers.jsonl"
_CHECK = b', "check": "%08x"}\n'
_CHECK_BYTES = len(_CHECK % 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPair:
    """One replayed request: the expected response and the actual response."""

    request: CapturedRequest
    answered: RecordedAnswer
    """The response of the replay's target."""
    other: RecordedAnswer | None = None
    """The response of the other target, with `--against`."""
    send_lag_ms: float = 0.0
    """Delay of the request behind its scheduled time; not part of either latency."""

    @property
    def expected_response(self) -> RecordedAnswer | None:
        """Return the other target's response, or otherwise the captured one.

        None: only Input was captured.
        """
        return self.other or self.request.answer


class AnswerLog:
    """The response log of a run, open for appending."""

    def __init__(
        self, folder: Path, seen: Callable[[AnswerPair], None] = lambda pair: None
    ) -> None:
        """Open the log and lock it.

        `seen` gets the pairs that an earlier process saved. Raises OSError; BlockingIOError if
        another process uses the log.
        """
        create_private_folder(folder)
        self._file = open(folder / ANSWERS, "ab", buffering=0, opener=open_private)  # noqa: SIM115
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.answered: defaultdict[str, set[int]] = defaultdict(set)
        """Lines of each captured file."""
        for pair in read_pairs(folder):
            self.answered[pair.request.file].add(pair.request.line)
            seen(pair)
        with (folder / ANSWERS).open("rb") as lines:  # a kill has cut the rest off
            self._file.truncate(sum(len(line) for line in lines if line.endswith(b"\n")))

    def append(self, pair: AnswerPair) -> None:
        """Save one pair. Raises OSError."""
        kept: dict[str, Any] = {
            "file": pair.request.file,
            "line": pair.request.line,
            "sendLagMs": round(pair.send_lag_ms, 3),
            "answered": _convert_response(pair.answered),
        }
        if pair.other is not None:
            kept["other"] = _convert_response(pair.other)
        text = format_line(pair.request, {"replayed": kept})[:-1]
        self._file.write(text + _CHECK % zlib.crc32(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """Flush everything to the disk, and close the file."""
        os.fsync(self._file.fileno())
        self._file.close()


def read_pairs(folder: Path) -> Iterator[AnswerPair]:
    """Yield a run's pairs so far, in their order, one at a time. Raises OSError."""
    with (folder / ANSWERS).open("rb") as file:
        for line in file:
            text = line[:-_CHECK_BYTES]
            if line[-_CHECK_BYTES:] != _CHECK % zlib.crc32(text):
                continue  # cut off or damaged
            record = json.loads(line)
            kept = record["replayed"]
            try:
                request = parse_request(record, file=kept["file"], number=kept["line"])
            except CaptureLineError:
                continue  # an older version kept what no header may contain
            yield AnswerPair(
                request=request,
                answered=_parse_response(kept["answered"]),
                other=_parse_response(kept["other"]) if "other" in kept else None,
                send_lag_ms=kept["sendLagMs"],
            )


def _convert_response(answer: RecordedAnswer) -> dict[str, Any]:
    return {
        "status": answer.status,
        "contentType": answer.content_type,
        "latencyMs": None if answer.latency_ms is None else round(answer.latency_ms, 3),
        "error": answer.error,
        "body": base64.b64encode(answer.body).decode(),
    }


def _parse_response(written: dict[str, Any]) -> RecordedAnswer:
    return RecordedAnswer(
        body=base64.b64decode(written["body"]),
        content_type=written["contentType"],
        status=written["status"],
        latency_ms=written["latencyMs"],
        error=written["error"],
    )


class ReplaySummary:
    """The counts and latencies of a replay: call `add` for each pair."""

    def __init__(self) -> None:
        self.answered = 0
        """Requests with an outcome, failures included."""
        self.failures: Counter[str] = Counter()
        """By kind: "timeout", "connection refused", "500"."""
        self._latencies_ms = array("d")
        self._lags_ms = array("d")

    def add(self, pair: AnswerPair) -> None:
        self.answered += 1
        answer, captured = pair.answered, pair.request.answer
        if answer.has_failed:
            # A request that also failed when it was captured isn't a new failure. An endpoint returns 424
            # for any error of its container: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
            if answer.error or captured is None or not captured.has_failed:
                self.failures[answer.error or str(answer.status)] += 1
        elif answer.latency_ms is not None:
            self._latencies_ms.append(answer.latency_ms)
            self._lags_ms.append(pair.send_lag_ms)

    @property
    def latencies(self) -> Latencies:
        """Return the latencies of successful responses, each measured from sending."""
        return Latencies.from_milliseconds(self._latencies_ms)

    @property
    def send_lags(self) -> Latencies:
        """Return the delays of the requests behind their scheduled times."""
        return Latencies.from_milliseconds(self._lags_ms)


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """The result of a replay that has ended or was interrupted."""

    folder: Path
    index: CaptureIndex
    summary: ReplaySummary
    seconds: float
    """Duration in this process; an earlier one that was interrupted is not counted."""
    interrupted: bool

    def as_object(self) -> dict[str, Any]:
        """Return the object that `--json` prints. Its milliseconds are None if there was no response."""
        latencies, lags = self.summary.latencies, self.summary.send_lags
        return {
            "folder": str(self.folder),
            "requests": len(self.index),
            "answered": self.summary.answered,
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
            "failures": dict(self.summary.failures),
            "latency_ms": _compute_percentiles(latencies),
            "send_lag_ms": _compute_percentiles(lags),
            "lines_read": self.index.lines_read,
            "skipped": [asdict(skipped) for skipped in self.index.skip_counts],
        }

    def format_lines(self) -> list[str]:
        """Return the summary as lines for display."""
        summary, latencies, lags = self.summary, self.summary.latencies, self.summary.send_lags
        lines = [f"{summary.answered:,} of {len(self.index):,} requests got a response"]
        for kind, count in summary.failures.most_common():
            lines.append(f"{count:,} failed: {kind}")
        if latencies.count:
            lines.append(
                f"latency p50 {latencies.p50_ms:.1f} ms, p99 {latencies.p99_ms:.1f} ms; sent late p50 "
                f"{lags.p50_ms:.1f} ms, p99 {lags.p99_ms:.1f} ms"
            )
        return [*lines, f"{self.folder}: requests and responses, readable only by you"]


def _compute_percentiles(latencies: Latencies) -> dict[str, float] | None:
    if not latencies.count:
        return None
    return {"p50": latencies.p50_ms, "p99": latencies.p99_ms, "max": latencies.max_ms}
