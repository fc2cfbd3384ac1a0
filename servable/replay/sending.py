"""The sending process of a replay: captured requests go in, answers come out as they arrive."""

import dataclasses
import io
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from servable.captured.lines import CapturedRequest, RecordedAnswer
from servable.load.load_generator import LoadError
from servable.load.load_target import LoadTarget, frame, read_frame
from servable.replay.answers import AnswerPair

_END_SECONDS = 5.0
_MODULE = "servable.load.generator.replay_worker"


@dataclass(frozen=True, kw_only=True)
class ReplayPace:
    """Pace of requests: at their captured moments, or as fast as the objective allows."""

    as_fast: bool = False
    """Not at the captured moments: as many at once as p99 stays within the objective."""
    objective_ms: float | None = None
    """Limit of p99, with `as_fast`; None: a fixed number of requests at once."""


class ReplaySender:
    """Send requests to one target, or to two in turns. Memory: bounded by what the process takes in."""

    def __init__(
        self,
        targets: Sequence[LoadTarget],
        pace: ReplayPace,
        *,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process. `variables`: its environment; default: this process's. Raises LoadError."""
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (close() closes it)
        self._waiting: dict[int, CapturedRequest] = {}
        self._failed: BaseException | None = None
        self._feeder: threading.Thread | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gevent.monkey", "--module", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=None if variables is None else dict(variables),
            process_group=0,  # Ctrl-C goes to this process, which ends the other
        )
        assert self._process.stdin is not None  # asked for as pipes
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        plan = {
            "targets": [dataclasses.asdict(target) for target in targets],
            "as_fast": pace.as_fast,
            "objective_ms": pace.objective_ms,
        }
        try:
            self._write({"plan": plan})
            self._heard()
        except BaseException:  # Ctrl-C while waiting leaves nothing either
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def replay(self, requests: Iterable[tuple[float, CapturedRequest]]) -> Iterator[AnswerPair]:
        """Yield each request with its answers, in the order of the answers.

        `requests`: (captured moment in seconds, request), rising; read by a thread, as they are sent. Raises
        LoadError, and what reading `requests` raises.
        """
        self._feeder = feeder = threading.Thread(target=self._feed, args=(requests,), daemon=True)
        feeder.start()
        while True:
            message, bodies = self._heard()
            if "ended" in message:
                break
            answered = message["answered"]
            yield _pair(self._waiting.pop(answered["number"]), answered, bodies)
        feeder.join()
        if self._failed is not None:
            raise self._failed

    def _feed(self, requests: Iterable[tuple[float, CapturedRequest]]) -> None:
        first: float | None = None
        try:
            for number, (moment, request) in enumerate(requests):
                first = moment if first is None else first
                self._waiting[number] = request
                headers = {  # fields of the generator's Body
                    "content_type": request.content_type,
                    "custom_attributes": request.custom_attributes,
                    "accept": request.accept,
                    "target_model": request.target_model,
                }
                self._write(
                    {"number": number, "due": moment - first, "headers": headers}, request.body
                )
        except LoadError:
            return  # the process has ended, which the other thread notices
        except BaseException as error:  # what is sent is answered before it is raised
            self._failed = error
        try:
            self._write({"end": True})
        except LoadError:
            pass

    def _write(self, message: dict[str, Any], body: bytes = b"") -> None:
        try:
            self._input.write(frame(message, body))
            self._input.flush()
        except (OSError, ValueError):  # ended, or closed meanwhile
            raise self._ended() from None

    def _heard(self) -> tuple[dict[str, Any], bytes]:
        received = read_frame(self._output)  # type: ignore[arg-type]  # a buffered reader
        if received is None:
            raise self._ended()
        if "error" in received[0]:
            raise LoadError(received[0]["error"])
        return received

    def _ended(self) -> LoadError:
        if self._words.closed:  # asked by the thread that is fed no more
            return LoadError("the replay has ended")
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").splitlines()[-10:]
        return LoadError("\n".join(["the sending process of the replay has ended.", *lines]))

    def close(self) -> None:
        """End the process. Idempotent."""
        self._process.kill()
        self._process.wait(_END_SECONDS)
        if self._feeder is not None:
            self._feeder.join(_END_SECONDS)
        for pipe in (self._input, self._output):
            try:
                pipe.close()
            except OSError:
                pass  # it ended first
        self._words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _pair(request: CapturedRequest, answered: dict[str, Any], bodies: bytes) -> AnswerPair:
    body = io.BytesIO(bodies)
    answers = [
        RecordedAnswer(
            body=body.read(answer["bytes"]),
            content_type=answer["contentType"],
            status=answer["status"],
            latency_ms=answer["ms"],
            error=answer["error"],
        )
        for answer in answered["answers"]
    ]
    return AnswerPair(
        request=request,
        answered=answers[0],
        other=answers[1] if len(answers) > 1 else None,
        send_lag_ms=answered["lagMs"],
    )
