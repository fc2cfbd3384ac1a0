"""Log of a replay: requests with both their answers, in a file that a kill cannot spoil.

    for pair in read_pairs(run_folder):
        compare(pair.expected, pair.answered)

Each line is a record of data capture with two more keys, so that the file can itself be replayed: "replayed",
the answers that came, and "check", the CRC-32 of what stands before it. Lines are only ever appended; a line
that is cut off or damaged is passed over.
"""

import base64
import fcntl
import json
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from model_packaging.private_folder import private_folder, private_opener
from servable.captured.lines import (
    CapturedRequest,
    CaptureLineError,
    RecordedAnswer,
    request_of,
    write_line,
)

# The file of a run's folder that keeps requests and answers.
ANSWERS = "answers.jsonl"
_CHECK = b', "check": "%08x"}\n'
_CHECK_BYTES = len(_CHECK % 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPair:
    """One replayed request: the answer that is expected and the answer that came."""

    request: CapturedRequest
    answered: RecordedAnswer
    """The answer of the replay's target."""
    other: RecordedAnswer | None = None
    """The answer of the other target, with `--against`."""
    send_lag_ms: float = 0.0
    """Delay of the request behind its scheduled time; not part of either latency."""

    @property
    def expected(self) -> RecordedAnswer | None:
        """The other target's answer, else the captured one. None: only Input was captured."""
        return self.other or self.request.answer


class AnswerLog:
    """The file of a run, open for appending."""

    def __init__(
        self,
        folder: Path,
        seen: Callable[[AnswerPair], None] = lambda pair: None,
    ) -> None:
        """`seen` gets what an earlier process has kept. Raises OSError; BlockingIOError: it is in use."""
        private_folder(folder)
        self._file = open(folder / ANSWERS, "ab", buffering=0, opener=private_opener)  # noqa: SIM115
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.answered: defaultdict[str, set[int]] = defaultdict(set)
        """Lines of each captured file."""
        for pair in read_pairs(folder):
            self.answered[pair.request.file].add(pair.request.line)
            seen(pair)
        with (folder / ANSWERS).open("rb") as lines:  # a kill has cut the rest off
            self._file.truncate(sum(len(line) for line in lines if line.endswith(b"\n")))

    def append(self, pair: AnswerPair) -> None:
        """Keep one answer. Raises OSError."""
        kept: dict[str, Any] = {
            "file": pair.request.file,
            "line": pair.request.line,
            "sendLagMs": round(pair.send_lag_ms, 3),
            "answered": _written(pair.answered),
        }
        if pair.other is not None:
            kept["other"] = _written(pair.other)
        text = write_line(pair.request, {"replayed": kept})[:-1]
        self._file.write(text + _CHECK % zlib.crc32(text))

    def close(self) -> None:
        """Write everything to the disk."""
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def read_pairs(folder: Path) -> Iterator[AnswerPair]:
    """Yield a run's answers so far, in their order, one at a time. Raises OSError."""
    for record in _records(folder / ANSWERS):
        kept = record["replayed"]
        try:
            request = request_of(record, file=kept["file"], number=kept["line"])
        except CaptureLineError:
            continue  # an older version kept what no header may hold
        yield AnswerPair(
            request=request,
            answered=_read(kept["answered"]),
            other=_read(kept["other"]) if "other" in kept else None,
            send_lag_ms=kept["sendLagMs"],
        )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the whole lines."""
    with path.open("rb") as file:
        for line in file:
            text = line[:-_CHECK_BYTES]
            if line[-_CHECK_BYTES:] == _CHECK % zlib.crc32(text):
                yield json.loads(line)


def _written(answer: RecordedAnswer) -> dict[str, Any]:
    return {
        "status": answer.status,
        "contentType": answer.content_type,
        "latencyMs": None if answer.latency_ms is None else round(answer.latency_ms, 3),
        "error": answer.error,
        "body": base64.b64encode(answer.body).decode(),
    }


def _read(written: dict[str, Any]) -> RecordedAnswer:
    return RecordedAnswer(
        body=base64.b64decode(written["body"]),
        content_type=written["contentType"],
        status=written["status"],
        latency_ms=written["latencyMs"],
        error=written["error"],
    )
