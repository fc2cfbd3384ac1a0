"""A run of `servable replay`: its folder, which a killed run leaves for the next, and the sending."""

import dataclasses
import datetime
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from model_packaging.beside import write_beside
from servable.captured.lines import CapturedRequest, line_id
from servable.load.load_target import LoadTarget
from servable.replay.answers import AnswerLog, AnswerPair, read_pairs
from servable.replay.index import CaptureIndex
from servable.replay.sending import ReplayPace, ReplaySender
from servable.replay.summary import ReplayResult, ReplaySummary

RUNS = Path(".servable") / "replay"
# What was asked, and whether it is done.
RUN = "run.json"
Progress = Callable[[ReplaySummary, float], None]
"""(what is counted so far, the captured moment that was answered last)"""


class ReplayError(Exception):
    """The replay cannot go on. `str()` is a whole sentence: what failed, what to do."""


def run_folder(root: Path, name: str, question: Mapping[str, Any]) -> Path:
    """Return the folder of the unfinished run of this question, or the path of a new one.

    `question`: everything by which answers differ; a different one starts a new run. A finished run isn't
    continued: the same question starts a new run.
    """
    # A relative path means other files in another folder.
    asked = json.dumps([question, str(Path.cwd())], sort_keys=True)
    key = hashlib.sha256(asked.encode()).hexdigest()[:10]
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    stem = f"{safe.strip('-')[:60]}-{key}"
    for folder in sorted((root / RUNS).glob(f"{stem}-*"), reverse=True):
        if not _finished(folder):
            return folder
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S-%f")
    folder = root / RUNS / f"{stem}-{now}"
    _write(folder, {"question": dict(question), "finished": False})
    return folder


def _finished(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / RUN).read_bytes())["finished"])
    except (OSError, ValueError, KeyError):
        return True  # not a run of ours, or not one to go on with


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    write_beside(folder / RUN, (json.dumps(content, indent=1) + "\n").encode())


def replay(
    index: CaptureIndex,
    targets: Sequence[LoadTarget],
    pace: ReplayPace,
    folder: Path,
    *,
    variables: Mapping[str, str] | None = None,
    redact: bool = False,
    progress: Progress = lambda summary, moment: None,
    seen: Callable[[AnswerPair], None] = lambda pair: None,
) -> ReplayResult:
    """Send what the folder has no answer to yet, and keep each answer as it comes.

    `targets`: one, or two that are invoked in turns. `variables`: environment of the sending process; None:
    that of this process. `redact`: leave out the callers' ids and attributes. `seen` gets every pair of
    answers, those of an earlier process first. After Ctrl-C the result says `interrupted`, and the next call
    continues; requests under way are then sent again. Raises ReplayError, LoadError, PlaceError.
    """
    began = time.monotonic()
    summary = ReplaySummary()
    try:
        log = AnswerLog(folder, summary.add)
    except BlockingIOError:
        raise ReplayError(f"{folder}: another replay is at work here; wait, or end it") from None
    interrupted = False
    with log:
        try:
            for pair in read_pairs(folder):
                seen(pair)
            with ReplaySender(targets, pace, variables=variables) as sender:
                for pair in sender.replay(_unanswered(index, log)):
                    if redact:  # also in what is printed
                        pair = dataclasses.replace(pair, request=without_identity(pair.request))
                    log.append(pair)
                    summary.add(pair)
                    seen(pair)
                    progress(summary, pair.request.time)
        except KeyboardInterrupt:
            interrupted = True
    result = ReplayResult(
        folder=folder,
        index=index,
        summary=summary,
        seconds=time.monotonic() - began,
        interrupted=interrupted,
    )
    if not interrupted:
        run = json.loads((folder / RUN).read_bytes())
        _write(folder, run | {"finished": True, "result": result.as_object()})
    return result


def _unanswered(index: CaptureIndex, log: AnswerLog) -> Iterator[tuple[float, CapturedRequest]]:
    for number in range(len(index)):
        file, line = index.key(number)
        if line not in log.answered.get(file, ()):
            yield float(index.times[number]), index.request(number)


def without_identity(request: CapturedRequest) -> CapturedRequest:
    """Return the request without what its caller wrote: custom attributes and the inference id."""
    own = request.event_id != request.inference_id
    event_id = request.event_id if own else line_id(request.file, request.line)
    return dataclasses.replace(
        request, event_id=event_id, inference_id=None, custom_attributes=None
    )
