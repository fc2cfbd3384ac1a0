"""Run a table through the local container, without AWS.

Files are split, sent, and reassembled as a transform job does it.
"""

import gzip
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from model_packaging.beside import open_atomically
from servable.batch.objects import (
    LOCAL_CONTAINER,
    LocalFile,
    add_counts,
    count_file,
    count_records,
    count_result_records,
    read_first_records,
)
from servable.batch.result import MESSAGE, BatchResult, FailedRequest, parse_failure
from servable.console.lines import format_duration, show_progress_line
from servable.project.provided import (
    READY_SECONDS,
    AnswerError,
    Container,
    RequestSender,
    build_batch_variables,
    launch,
    read_limits,
    transform,
)
from servable.serve.serve import PreparedVariant
from servable_tensors.records import TransformError

# The search for bad records stops here: a header or a wrong column makes all records bad.
MOST_FAILED = 100
_REFUSED = "records were refused"


class LocalBatch:
    """One run of a table on this computer.

    A result file appears under its name only when it is complete. A second run creates all result
    files again.
    """

    def __init__(self, served: PreparedVariant, request: Mapping[str, Any], log: Path) -> None:
        """Prepare the run; `request` is a CreateTransformJob request.

        Its S3 URIs and resources aren't used.
        """
        self._served, self._request, self._log = served, request, log
        self._by_line = request["TransformInput"].get("SplitType") == "Line"
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._failed: list[FailedRequest] = []
        self._done = 0

    def run(self, files: Sequence[LocalFile], limit: int | None = None) -> BatchResult:
        """Compute the result of every file, or of the first `limit` records.

        After Ctrl-C, the result is marked `interrupted`. Raises `LaunchError`, OSError.
        """
        with tempfile.TemporaryDirectory(prefix="servable-batch-") as folder:
            if limit is not None:
                files = list(self._sample_files(files, limit, Path(folder)))
            return self._run_files(files)

    def _sample_files(
        self, files: Sequence[LocalFile], limit: int, folder: Path
    ) -> Iterator[LocalFile]:
        for number, file in enumerate(files):
            with file.input.open("rb") as body:
                content, count = read_first_records(body, self._request, limit)
            sample = folder / str(number) / file.input.name
            sample.parent.mkdir()
            sample.write_bytes(content)
            yield LocalFile(sample, file.result)
            if (limit := limit - count) <= 0:
                return

    def _run_files(self, files: Sequence[LocalFile]) -> BatchResult:
        rows = sum(count_file(file.input, self._request, count_records) for file in files)
        served = self._served
        variables = served.variables | build_batch_variables(self._request)
        start = partial(
            launch, served.archive, variables, log=self._log, tensorflow=served.tensorflow
        )
        container = Container(partial(start, ready_timeout_seconds=READY_SECONDS))
        began, written, interrupted = time.monotonic(), [], False
        try:
            with show_progress_line() as show:

                def show_progress() -> None:
                    show(lambda: self._describe_progress(rows, time.monotonic() - began))

                for file in files:
                    if self._run_file(container, file, show_progress):
                        written.append(file.result)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._stopping.set()
            container.close()
        seconds = time.monotonic() - began
        counts = [count_file(file, self._request, count_result_records) for file in written]
        rows_out, accept = add_counts(counts), self._request["TransformOutput"]["Accept"]
        not_counted = f"responses of type {accept} don't show how many rows they cover"
        return BatchResult(
            job=self._request["TransformJobName"],
            status="Stopped" if interrupted else "Failed" if self._failed else "Completed",
            where=LOCAL_CONTAINER,
            objects_in=len(files),
            objects_out=len(written),
            bytes_in=sum(file.input.stat().st_size for file in files),
            rows_in=rows,
            rows_out=rows_out,
            not_counted=not_counted if rows_out is None else None,
            failed=tuple(self._failed),
            seconds=seconds,
            usd=0.0,
            price="on this computer",
            output=str(files[0].result.parent),
            interrupted=interrupted,
        )

    def _describe_progress(self, rows: int, seconds: float) -> str:
        rest = f"{self._done / seconds:,.0f} rows/s; "
        if self._done:
            rest += f"about {format_duration(seconds * (rows / self._done - 1))} left"
        return f"{self._done:,} of {rows:,} rows, {rest}; press Ctrl-C to stop"

    def _run_file(self, container: Container, file: LocalFile, tell: Callable[[], None]) -> bool:
        """Run one file, and return whether its result was written.

        The result is written only if all of the file's records have a response.
        """
        sender = RequestSender(container, self._request, self._stopping)
        limits = read_limits(self._request, container)
        failed = len(self._failed)

        def send(body: bytes, first: int) -> bytes:
            answer = self._send(sender, body, first, file.input)
            with self._lock:
                self._done += body.count(b"\n") + 1 if self._by_line else 1
                tell()
            return answer

        pool = ThreadPoolExecutor(limits.concurrent)
        try:
            with file.input.open("rb") as body, open_atomically(file.result) as out:
                transform(self._request, limits, body, out, pool, send)
                if len(self._failed) > failed:
                    raise TransformError(_REFUSED)
        except (AnswerError, TransformError, EOFError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
                raise  # the disk's
            row = getattr(error, "record", None)
            place = f"{file.input}{f' row {row:,}' if row else ''}"
            lines = getattr(error, "lines", ["ClientError", MESSAGE, str(error)])
            if str(error) != _REFUSED:
                self._failed.append(parse_failure(place, lines))
            return False
        except BaseException:
            # Requests in progress aren't waited for.
            self._stopping.set()
            container.close()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return True

    def _send(self, sender: RequestSender, body: bytes, first: int, file: Path) -> bytes:
        """Return the response lines; find the bad records of a rejected request by bisection.

        Bad records get "null" as their line. Raises `AnswerError` if the records can't be told
        apart, and `TransformError` for too many bad records.
        """
        try:
            return sender.send(body)
        except AnswerError as error:
            if error.kind != "ClientError" or not self._by_line:
                raise
            failure = parse_failure(f"{file} row {first:,}", error.lines)
        lines = body.split(b"\n")
        if len(lines) > 1:
            middle = len(lines) // 2
            halves = ((lines[:middle], first), (lines[middle:], first + middle))
            sent = (self._send(sender, b"\n".join(half), at, file) for half, at in halves)
            return b"\n".join(answer.removesuffix(b"\n") for answer in sent)
        with self._lock:
            self._failed.append(failure)
            if len(self._failed) >= MOST_FAILED:
                raise TransformError(f"{MOST_FAILED} bad records; stopped searching for more")
        return b"null"
