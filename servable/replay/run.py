"""Run `servable replay`: its folder, sending the requests, and the progress.

The folder of a killed run is continued by the next run. A separate process sends the captured
requests and returns the responses as they arrive.
"""

import dataclasses
import datetime
import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_packaging.beside import write_atomically
from servable.captured.lines import CapturedRequest, build_line_id
from servable.console.lines import REFRESH_SECONDS, format_duration, show_progress_line
from servable.measured.measurement import Body, LoadError, LoadTarget
from servable.measured.sending import END_SECONDS, SendingProcess
from servable.replay.answers import AnswerLog, AnswerPair, ReplayResult, ReplaySummary
from servable.replay.index import CaptureIndex, format_utc

_MODULE = "servable.replay.replay_worker"


@dataclass(frozen=True, kw_only=True)
class ReplayPace:
    """The rate of requests: at their captured times, or as fast as the objective allows."""

    as_fast: bool = False
    objective_ms: float | None = None
    """Limit of p99, with `as_fast`; None: a fixed number of requests at once."""


class ReplaySender(SendingProcess):
    """Sends requests to one target, or to two in turns.

    Its memory is bounded by what the process accepts.
    """

    def __init__(
        self,
        targets: Sequence[LoadTarget],
        pace: ReplayPace,
        *,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start the sending process.

        `variables`: its environment; default: this process's. Raises LoadError.
        """
        command = [sys.executable, "-m", "gevent.monkey", "--module", _MODULE]
        super().__init__(command, "the replay's sending process", variables)
        self._waiting: dict[int, CapturedRequest] = {}
        self._failed: BaseException | None = None
        self._feeder: threading.Thread | None = None
        try:
            self._write((list(targets), pace.as_fast, pace.objective_ms))
            self._receive()
        except BaseException:  # Ctrl-C while waiting leaves nothing either
            self.close()
            raise

    def replay(self, requests: Iterable[tuple[float, CapturedRequest]]) -> Iterator[AnswerPair]:
        """Yield each request with its responses, in the order of the responses.

        `requests`: (captured time in seconds, request), in ascending order; a thread reads them
        as they are sent. Raises LoadError, and what reading `requests` raises.
        """
        self._feeder = feeder = threading.Thread(
            target=self._send_requests, args=(requests,), daemon=True
        )
        feeder.start()
        while (received := self._receive()) is not None:
            number, lag_ms, (answered, *others) = received
            yield AnswerPair(
                request=self._waiting.pop(number),
                answered=answered,
                other=others[0] if others else None,
                send_lag_ms=lag_ms,
            )
        feeder.join()
        if self._failed is not None:
            raise self._failed

    def _send_requests(self, requests: Iterable[tuple[float, CapturedRequest]]) -> None:
        first: float | None = None
        try:
            for number, (moment, request) in enumerate(requests):
                first = moment if first is None else first
                self._waiting[number] = request
                body = Body(
                    content=request.body,
                    content_type=request.content_type,
                    custom_attributes=request.custom_attributes,
                    accept=request.accept,
                    target_model=request.target_model,
                )
                self._write((number, moment - first, body))
        except LoadError:
            return  # the process has ended, which the other thread notices
        except BaseException as error:  # raised after the responses to the sent requests
            self._failed = error
        with suppress(LoadError):
            self._write(None)

    def close(self) -> None:
        """End the sending process. Further calls have no effect."""
        self._process.kill()
        if self._feeder is not None:
            self._feeder.join(END_SECONDS)
        super().close()


RUNS = Path(".servable") / "replay"
RUN = "run.json"
"""The file with a run's question, and whether the run is finished."""
Progress = Callable[[ReplaySummary, float], None]
"""(what is counted so far, the captured moment that was answered last)"""


def prepare_run_folder(root: Path, name: str, question: Mapping[str, Any]) -> Path:
    """Return the folder of the unfinished run of this question, or of a new run.

    `question`: everything that responses depend on; a different question starts a new run. A
    finished run isn't continued: the same question starts a new run.
    """
    # A relative path means other files in another folder.
    asked = json.dumps([question, str(Path.cwd())], sort_keys=True)
    key = hashlib.sha256(asked.encode()).hexdigest()[:10]
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    stem = f"{safe.strip('-')[:60]}-{key}"
    for folder in sorted((root / RUNS).glob(f"{stem}-*"), reverse=True):
        if not _is_finished(folder):
            return folder
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S-%f")
    folder = root / RUNS / f"{stem}-{now}"
    _write_run(folder, {"question": dict(question), "finished": False})
    return folder


def _is_finished(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / RUN).read_bytes())["finished"])
    except (OSError, ValueError, KeyError, TypeError):
        return True  # not a run that can be continued


def _write_run(folder: Path, content: Mapping[str, Any]) -> None:
    write_atomically(folder / RUN, (json.dumps(content, indent=1) + "\n").encode())


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
    """Send the requests without a saved response, and save each response as it arrives.

    `targets`: one, or two that are invoked in turns. `variables`: environment of the sending
    process; None: that of this process. `redact`: leave out the callers' IDs and attributes.
    `seen` gets every pair of responses, those of an earlier process first. After Ctrl-C the
    result is marked `interrupted`, and the next call continues; requests without a response yet
    are then sent again. Raises LoadError, PlaceError.
    """
    began = time.monotonic()
    summary, interrupted = ReplaySummary(), False

    def count(pair: AnswerPair) -> None:
        summary.add(pair)
        seen(pair)

    try:
        with (
            AnswerLog(folder, count) as log,
            ReplaySender(targets, pace, variables=variables) as sender,
        ):
            for pair in sender.replay(_iterate_unanswered(index, log)):
                if redact:  # also in what is printed
                    pair = dataclasses.replace(pair, request=remove_identity(pair.request))
                log.append(pair)
                count(pair)
                progress(summary, pair.request.time)
    except BlockingIOError:
        raise LoadError(
            f"{folder}: another replay is running here; wait for it to finish, or stop it"
        ) from None
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
        _write_run(folder, run | {"finished": True, "result": result.as_object()})
    return result


def _iterate_unanswered(
    index: CaptureIndex, log: AnswerLog
) -> Iterator[tuple[float, CapturedRequest]]:
    for number in range(len(index)):
        file, line = index.find_location(number)
        if line not in log.answered.get(file, ()):
            yield float(index.times[number]), index.read_request(number)


def remove_identity(request: CapturedRequest) -> CapturedRequest:
    """Return the request without its caller's custom attributes and inference ID."""
    own = request.event_id != request.inference_id
    event_id = request.event_id if own else build_line_id(request.file, request.line)
    return dataclasses.replace(
        request, event_id=event_id, inference_id=None, custom_attributes=None
    )


@contextmanager
def show_progress(index: CaptureIndex, pace: ReplayPace) -> Iterator[Progress]:
    """Yield a callback for each response; a thread shows the progress, also during gaps."""
    tick = _Ticker(index, pace)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(REFRESH_SECONDS):
            show(tick.format_text)

    with show_progress_line() as show:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield tick.record_response
        finally:
            ended.set()
            watcher.join()


class _Ticker:
    """The progress of a running replay, with an estimate of its end."""

    def __init__(self, index: CaptureIndex, pace: ReplayPace) -> None:
        self._index, self._pace = index, pace
        self._began = self._at = time.monotonic()
        self._moment = float(index.times[0])
        self._done = self._before = self._failed = 0

    def record_response(self, summary: ReplaySummary, moment: float) -> None:
        if not self._done:
            self._before = summary.answered - 1  # an earlier process has answered these
        self._done, self._failed = summary.answered, sum(summary.failures.values())
        self._moment, self._at = moment, time.monotonic()

    def format_text(self) -> str:
        now, total = time.monotonic(), len(self._index)
        rate = (self._done - self._before) / (now - self._began)
        left = (total - self._done) / rate if rate else 0.0
        if not self._pace.as_fast:
            left = float(self._index.times[-1]) - self._moment
            left = max(0.0, left - (now - self._at))
        return (
            f"{self._done:,} of {total:,} done, {self._failed:,} failed; {rate:,.0f} requests/s; "
            f"about {format_duration(left)} left"
        )


def describe_plan(index: CaptureIndex, pace: ReplayPace) -> str:
    """Describe the requests to be sent, and how long that takes."""
    first, last = float(index.times[0]), float(index.times[-1])
    what = f"{len(index):,} requests from {format_utc(first)} to {format_utc(last)}"
    how = f"at the captured rate: {format_duration(last - first)}"
    if pace.as_fast:
        objective = pace.objective_ms
        limit = f"while p99 is within {objective:g} ms" if objective else "32 at once"
        how = f"as fast as responses arrive, {limit}"
    return f"{what}, {how}; Ctrl-C keeps the responses so far"
