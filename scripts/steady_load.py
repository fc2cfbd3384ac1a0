"""Requests at a steady pace, whatever becomes of them, and what their caller saw of each."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

OK = "answered"


@dataclass(frozen=True)
class Request:
    """`seen` is "answered", or the error as the caller reads it."""

    sent: datetime
    seen: str
    latency_ms: float


class SteadyLoad:
    """An open loop: a slow answer does not slow the next request down, up to `callers` at once."""

    def __init__(
        self,
        ask: Callable[[], None],
        now: Callable[[], datetime],
        *,
        requests_per_second: float,
        callers: int = 24,
    ) -> None:
        self.requests: list[Request] = []
        self._ask = ask
        self._now = now
        self._gap_seconds = 1 / requests_per_second
        self._next = time.monotonic()
        self._pace = threading.Lock()
        self._stop = threading.Event()
        self._callers = [
            threading.Thread(target=self._call, name="caller", daemon=True) for _ in range(callers)
        ]

    def __enter__(self) -> "SteadyLoad":
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()

    def _call(self) -> None:
        while True:
            with self._pace:
                due = self._next = max(self._next + self._gap_seconds, time.monotonic() - 1)
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            sent, began = self._now(), time.perf_counter()
            seen = self._seen()
            if not self._stop.is_set():  # what is under way at the end is nobody's finding
                latency_ms = (time.perf_counter() - began) * 1000
                self.requests.append(Request(sent, seen, latency_ms))

    def _seen(self) -> str:
        try:
            self._ask()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            original = error.response.get("OriginalStatusCode")
            return code if original is None else f"{code} {original}"
        except BotoCoreError as error:
            return type(error).__name__
        return OK
