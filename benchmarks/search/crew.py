"""Processes that search, one for each core."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from types import TracebackType
from typing import Self, TypeVar

Job = TypeVar("Job")
Found = TypeVar("Found")
# Of numpy, read when it is imported: with threads of its own it is slower on matrices this small,
# and many times slower where cores are shared.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Crew:
    """Ctrl-C ends it after the searches that are under way: seconds."""

    def __enter__(self) -> Self:
        self._before = {name: os.environ.get(name) for name in ONE_THREAD}
        os.environ.update(ONE_THREAD)
        # Not forked: numpy has read its environment here already.
        self._pool = ProcessPoolExecutor(
            mp_context=multiprocessing.get_context("spawn"), initializer=_undisturbed
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def each(
        self, work: Callable[[Job], Found], jobs: Sequence[Job]
    ) -> Iterator[tuple[Job, Found]]:
        """As they are done."""
        under_way = {self._pool.submit(work, job): job for job in jobs}
        for future in as_completed(under_way):
            yield under_way[future], future.result()


def _undisturbed() -> None:
    """Ctrl-C reaches every process of the terminal; the first one decides what ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
