"""What happened to one request: a structured log line, and the time that each stage took."""

import json
import logging
import time

LOG = logging.getLogger("servable")


class Record:
    """Never holds a body. Stages are read, decode, model and encode."""

    __slots__ = ("_began", "_ends", "facts")

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._ends: list[tuple[str, float]] = []
        self.facts: dict[str, object] = {}

    def stage(self, name: str) -> None:
        """What went on since the last stage was this one."""
        self._ends.append((name, time.perf_counter()))

    def server_timing(self) -> str:
        """The value of a Server-Timing header: https://www.w3.org/TR/server-timing/."""
        return ", ".join(f"{name};dur={ms:.3f}" for name, ms in self._stages_ms())

    def _stages_ms(self) -> list[tuple[str, float]]:
        began = [self._began, *(end for _, end in self._ends)]
        return [
            (name, (end - start) * 1000)
            for (name, end), start in zip(self._ends, began, strict=False)
        ]

    def answered(self, status: int, bytes_out: int, content_type: str) -> None:
        """A line at debug."""
        if LOG.isEnabledFor(logging.DEBUG):
            self._log(logging.DEBUG, status=status, bytes_out=bytes_out, out=content_type)

    def refused(self, status: int, message: str) -> None:
        """A line at warning. The model server's own sentences may quote values: left out."""
        if LOG.isEnabledFor(logging.WARNING):
            self._log(logging.WARNING, status=status, reason=message.partition(":")[0][:100])

    def _log(self, level: int, **more: object) -> None:
        total = time.perf_counter() - self._began
        stages = {name: round(ms, 3) for name, ms in self._stages_ms()}
        line = {
            "event": "request",
            **self.facts,
            **more,
            "ms": round(total * 1000, 3),
            "stages_ms": stages,
        }
        LOG.log(level, "%s", json.dumps(line))
