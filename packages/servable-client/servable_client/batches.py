"""Batches of one endpoint: cut into parts, predicted concurrently, and merged.

Each part has its own thread and connection.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from servable_client.errors import BadAnswerError, PartFailedError, PredictionError
from servable_client.forks import initialize_in_each_process
from servable_client.formats import Array, Arrays, Outputs
from servable_client.split import Part, PartSizes, Split, count_rows, cut_into_parts

_EXACT_IN_FLOAT64 = 2**53


def merge_outputs(
    answers: Sequence[Arrays], rows: Sequence[int], constant: frozenset[str] | None = None
) -> dict[str, Array]:
    """Return the merged outputs of all parts; `rows` are the parts' numbers of rows.

    An output that has as many rows as its part, in every part, is joined. Any other, such as a
    model's version, must be the same in every part. If all parts have one length, `constant`
    decides, which names the outputs that are the same; without it, differing values are joined.
    Raises `BadAnswerError`.
    """
    if len(answers) == 1:
        return dict(answers[0])
    names = answers[0].keys()
    for number, answer in enumerate(answers):
        if answer.keys() != names:
            raise BadAnswerError(
                f"part {number + 1} has the outputs {', '.join(answer)}, "
                f"but the first has {', '.join(names)}"
            )
    if constant is not None and (missing := constant - names):
        raise BadAnswerError(
            f"Split(constant=…) names {', '.join(sorted(missing))}; "
            f"the model's outputs are {', '.join(names)}"
        )
    return {
        name: _merge_output(name, [answer[name] for answer in answers], rows, constant)
        for name in names
    }


def _merge_output(
    name: str, pieces: Sequence[Array], rows: Sequence[int], constant: frozenset[str] | None
) -> Array:
    is_constant = constant is not None and name in constant
    by_length = all(piece.ndim and len(piece) == n for piece, n in zip(pieces, rows, strict=True))
    if by_length and not is_constant:
        if constant is None and len(set(rows)) == 1 and _has_equal_pieces(pieces):
            raise BadAnswerError(
                f"{name}: every part has {rows[0]} rows and gives the same {rows[0]} values: they may "
                f"be per row or shared. Name the outputs that all parts share: "
                f'Split(rows={rows[0]}, constant=frozenset({{"{name}"}})), or constant=frozenset() '
                "for none"
            )
        return _concatenate_pieces(name, pieces)
    if _has_equal_pieces(pieces):
        return pieces[0]
    raise BadAnswerError(
        f"{name}: has shape {list(pieces[0].shape)} for {rows[0]} rows, and is not the same in every "
        "part: an output of the whole batch cannot be merged from parts; omit split"
    )


def _has_equal_pieces(pieces: Sequence[Array]) -> bool:
    first = pieces[0]
    numbers = first.dtype.kind in "fc"
    return all(
        first.dtype == piece.dtype and np.array_equal(first, piece, equal_nan=numbers)
        for piece in pieces[1:]
    )


def _concatenate_pieces(name: str, pieces: Sequence[Array]) -> Array:
    shapes = {piece.shape[1:] for piece in pieces}
    if len(shapes) > 1:
        raise BadAnswerError(f"{name}: parts return rows of different shapes, {sorted(shapes)}")
    kinds = {piece.dtype.kind for piece in pieces}
    if len(kinds) == 1:
        return np.concatenate(pieces)
    listed = ", ".join(sorted({str(piece.dtype) for piece in pieces}))
    if not kinds <= {"i", "u", "f"}:
        raise BadAnswerError(f"{name}: parts return different types, {listed}")
    # JSON carries no types: [1] is int64, [1.5] float64 and [2**63] uint64, of one output.
    least = min(int(piece.min(initial=0)) for piece in pieces if piece.dtype.kind != "f")
    most = max(int(piece.max(initial=0)) for piece in pieces if piece.dtype.kind != "f")
    dtype = np.float64 if "f" in kinds else np.uint64
    low, high = (-_EXACT_IN_FLOAT64, _EXACT_IN_FLOAT64) if "f" in kinds else (0, most)
    if least < low or most > high:
        problem = f"parts return {listed}, but converting to {dtype.__name__} changes values"
        raise BadAnswerError(f"{name}: {problem}")
    return np.concatenate([piece.astype(dtype) for piece in pieces])


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
        """Return the estimated seconds left, at the speed so far."""
        return self.seconds * (self.rows - self.rows_done) / max(self.rows_done, 1)


Report = Callable[[Progress], None]
Predict = Callable[[Arrays], Outputs]
"""A function that predicts one part. Raises `PredictionError`."""


class Batches:
    """The batches of one endpoint, with as many parts at a time as connections. Thread-safe."""

    def __init__(self, name: str, connections: int) -> None:
        self._name = name
        self._connections = connections
        initialize_in_each_process(self)

    def _initialize_process_state(self) -> None:
        self._part_sizes = PartSizes(self._connections)
        self._executor = ThreadPoolExecutor(self._connections, f"servable {self._name}")

    def predict(
        self, arrays: Arrays, split: Split, predict: Predict, report: Report | None
    ) -> Outputs:
        """Predict all parts and return their merged outputs. Raises `PredictionError`."""
        rows = count_rows(arrays, split.whole)
        count = self._part_sizes.choose_part_count(rows) if split.measured else 1
        pieces = cut_into_parts(arrays, split, measured_rows=-(-rows // count))
        began = time.monotonic()
        executor = self._executor if len(pieces) > 1 else _OwnThread()
        answers, failed = _predict_parts(pieces, predict, executor, report)
        if failed:
            number = min(failed)
            first, part_rows = failed[number], pieces[number].rows
            more = len(failed) - 1
            raise PartFailedError(number, len(pieces), part_rows, first, more) from first
        ordered = [answers[number] for number in range(len(pieces))]
        variants = {answer.variant for answer in ordered}
        outputs = merge_outputs(ordered, [len(piece.rows) for piece in pieces], split.constant)
        if split.measured:
            self._part_sizes.record(rows, count, time.monotonic() - began)
        return Outputs(outputs, variants.pop() if len(variants) == 1 else None)

    def close(self) -> None:
        """Wait for the running parts; the others find the endpoint closed."""
        self._executor.shutdown()  # `wait` never returns a future that an executor cancels


class _OwnThread(Executor):
    """An executor for a batch of one part: it runs in the calling thread, which saves 0.1 ms."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` now. Its exceptions go into the future; an interruption is raised to the caller."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as failure:
            future.set_exception(failure)
        return future


def _predict_parts(
    pieces: Sequence[Part], predict: Predict, executor: Executor, report: Report | None
) -> tuple[dict[int, Outputs], dict[int, PredictionError]]:
    """Predict the parts and return (outputs, failures) by part number; a failure stops the rest."""
    began, rows_done, stopped = time.monotonic(), 0, threading.Event()

    def send_part(part: Part) -> Outputs | None:
        if stopped.is_set():
            return None
        try:
            return predict(part.arrays)
        except BaseException:
            stopped.set()
            raise

    futures: dict[Future[Outputs | None], int] = {}
    answers: dict[int, Outputs] = {}
    failed: dict[int, PredictionError] = {}
    try:
        for number, piece in enumerate(pieces):
            futures[executor.submit(send_part, piece)] = number
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
