"""Batches of one endpoint: cut into parts, predicted side by side, and merged.

Each part goes on a thread and a connection of its own.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from servable_client.arrays import Arrays, Outputs
from servable_client.errors import PartFailedError, PredictionError
from servable_client.forks import in_each_process
from servable_client.merging import merged
from servable_client.part_sizes import PartSizes
from servable_client.split import Part, Split, parts, rows_of


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a long batch, reported after each part in the thread that called `predict`."""

    rows_done: int
    rows: int
    parts_done: int
    parts: int
    seconds: float
    """Seconds since the first part was sent."""

    @property
    def seconds_left(self) -> float:
        """Estimated seconds left, at the speed so far."""
        return self.seconds * (self.rows - self.rows_done) / max(self.rows_done, 1)


Report = Callable[[Progress], None]
Predict = Callable[[Part], Outputs]
"""A function that predicts one part. Raises `PredictionError`."""


class Batches:
    """Sends as many parts at a time as there are connections. Thread-safe."""

    def __init__(self, name: str, connections: int) -> None:
        self._name = name
        self._connections = connections
        in_each_process(self)

    def _start(self) -> None:
        self._part_sizes = PartSizes(self._connections)
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def predict(
        self, arrays: Arrays, split: Split, predict: Predict, report: Report | None
    ) -> Outputs:
        """Return the merged answer of all parts. Raises `PredictionError`."""
        rows = rows_of(arrays, split.whole)
        count = self._part_sizes.parts(rows) if split.measured else 1
        pieces = parts(arrays, split, measured_rows=-(-rows // count))
        began = time.monotonic()
        executor = self._threads() if len(pieces) > 1 else _OwnThread()
        answers, failed = _answers_and_failures(pieces, predict, executor, report)
        if failed:
            number = min(failed)
            first, part_rows = failed[number], pieces[number].rows
            more = len(failed) - 1
            raise PartFailedError(number, len(pieces), part_rows, first, more) from first
        ordered = [answers[number] for number in range(len(pieces))]
        variants = {answer.variant for answer in ordered}
        outputs = merged(ordered, [len(piece.rows) for piece in pieces], split.constant)
        if split.measured:
            self._part_sizes.record(rows, count, time.monotonic() - began)
        return Outputs(outputs, variants.pop() if len(variants) == 1 else None)

    def close(self) -> None:
        """Wait for the running parts; the others are not sent."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor:
            executor.shutdown(cancel_futures=True)

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._connections, f"servable {self._name}")
            return self._executor


class _OwnThread(Executor):
    """Runs a batch of one part in the calling thread, which saves a tenth of a millisecond."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` now. Its exceptions go into the future; an interruption is raised to the caller."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as failure:
            future.set_exception(failure)
        return future


def _answers_and_failures(
    pieces: Sequence[Part], predict: Predict, executor: Executor, report: Report | None
) -> tuple[dict[int, Outputs], dict[int, PredictionError]]:
    """Return (answers, failures) by part number.

    After a failure no other part is sent, and the running ones are awaited.
    """
    began, rows_done, stopped = time.monotonic(), 0, threading.Event()

    def send(part: Part) -> Outputs | None:
        if stopped.is_set():
            return None
        try:
            return predict(part)
        except BaseException:
            stopped.set()
            raise

    futures: dict[Future[Outputs | None], int] = {}
    answers: dict[int, Outputs] = {}
    failed: dict[int, PredictionError] = {}
    try:
        for number, piece in enumerate(pieces):
            futures[executor.submit(send, piece)] = number
        waiting = set(futures)
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ended:
                number = futures[future]
                try:
                    answer = future.result()
                except PredictionError as failure:
                    failed[number] = failure
                    waiting -= {unsent for unsent in waiting if unsent.cancel()}
                    continue
                if answer is None:
                    continue
                answers[number] = answer
                rows_done += len(pieces[number].rows)
                if report:
                    progress = Progress(
                        rows_done=rows_done,
                        rows=pieces[-1].rows.stop,
                        parts_done=len(answers),
                        parts=len(pieces),
                        seconds=time.monotonic() - began,
                    )
                    report(progress)
    except BaseException:  # Ctrl-C, or what `report` raised: nothing more is sent
        stopped.set()
        for future in futures:
            future.cancel()
        raise
    return answers, failed
