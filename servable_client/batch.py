"""The parts of a batch, sent side by side, each on a connection of its own."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait

from servable_client.arrays import Outputs
from servable_client.errors import PartFailedError, PredictionError
from servable_client.merging import merged
from servable_client.progress import Progress, Told
from servable_client.split import Part


def predict_parts(
    parts: Sequence[Part],
    predict: Callable[[Part], Outputs],
    executor: Executor,
    told: Told | None,
    constant: frozenset[str] | None = None,
) -> Outputs:
    """The answers in order, as one. Raises `PartFailedError` for the first part that failed.

    `constant`: as in `Split`.

    After a failure no other part is sent; those under way are waited for.
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
    failed: dict[int, PredictionError] = {}
    answers: dict[int, Outputs] = {}
    try:
        for number, part in enumerate(parts):
            futures[executor.submit(send, part)] = number
        waiting = set(futures)
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ended:
                number = futures[future]
                try:
                    answer = future.result()
                except PredictionError as failure:
                    failed[number] = failure
                    waiting -= {one for one in waiting if one.cancel()}
                    continue
                if answer is None:
                    continue
                answers[number] = answer
                rows_done += len(parts[number].rows)
                if told:
                    told(
                        Progress(
                            rows_done=rows_done,
                            rows=parts[-1].rows.stop,
                            parts_done=len(answers),
                            parts=len(parts),
                            seconds=time.monotonic() - began,
                        )
                    )
    except BaseException:  # Ctrl-C, or what `told` raised: nothing more is sent
        stopped.set()
        for future in futures:
            future.cancel()
        raise
    if failed:
        number = min(failed)
        first = failed[number]
        raise PartFailedError(
            number, len(parts), parts[number].rows, first, len(failed) - 1
        ) from first
    ordered = [answers[number] for number in range(len(parts))]
    variants = {one.variant for one in ordered}
    return Outputs(
        merged(ordered, [len(part.rows) for part in parts], constant),
        variants.pop() if len(variants) == 1 else None,
    )
