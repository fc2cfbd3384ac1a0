"""The batches of one endpoint: cut, asked for in parts on threads of its own, and put together."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from servable_client.arrays import Arrays, Outputs
from servable_client.batch import predict_parts
from servable_client.forks import in_each_process
from servable_client.own_thread import OwnThread
from servable_client.part_sizes import PartSizes
from servable_client.progress import Told
from servable_client.split import Part, Split, parts, rows_of


class Batches:
    """As many parts at a time as there are connections. Safe between threads."""

    def __init__(self, name: str, connections: int) -> None:
        self._name = name
        self._connections = connections
        in_each_process(self._start)

    def _start(self) -> None:
        self._part_sizes = PartSizes(self._connections)
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def predict(
        self,
        arrays: Arrays,
        split: Split,
        predict: Callable[[Part], Outputs],
        told: Told | None,
    ) -> Outputs:
        """`predict` asks for one part. Raises `PredictionError`."""
        rows = rows_of(arrays, split.whole)
        count = self._part_sizes.parts(rows) if split.measured else 1
        pieces = parts(arrays, split, measured_rows=-(-rows // count))
        began = time.monotonic()
        executor = self._threads() if len(pieces) > 1 else OwnThread()
        found = predict_parts(pieces, predict, executor, told, split.constant)
        if split.measured:
            self._part_sizes.record(rows, count, time.monotonic() - began)
        return found

    def close(self) -> None:
        """Waits for the parts under way; the others are not sent."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor:
            executor.shutdown(cancel_futures=True)

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._connections, f"servable {self._name}")
            return self._executor
