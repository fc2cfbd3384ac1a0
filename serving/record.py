"""What happened to one request: a structured log line, and the time that each stage took."""

import json
import logging
import time

LOG = logging.getLogger("servable")


class Record:
    """Never holds a body. Stages are read, decode, model and encode, in seconds."""

    def __init__(self) -> None:
        self._began = self._stage_began = time.perf_counter()
        self._stages: list[tuple[str, float]] = []
        self.facts: dict[str, object] = {}

    def stage(self, name: str) -> None:
        """What went on since the last stage was this one."""
        now = time.perf_counter()
        self._stages.append((name, now - self._stage_began))
        self._stage_began = now

    def server_timing(self) -> str:
        """The value of a Server-Timing header: https://www.w3.org/TR/server-timing/."""
        return ", ".join(f"{name};dur={seconds * 1000:.3f}" for name, seconds in self._stages)

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
        stages = {name: round(seconds * 1000, 3) for name, seconds in self._stages}
        line = {
            "event": "request",
            **self.facts,
            **more,
            "ms": round(total * 1000, 3),
            "stages_ms": stages,
        }
        LOG.log(level, "%s", json.dumps(line))
