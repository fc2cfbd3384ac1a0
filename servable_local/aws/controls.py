"""What the embedded AWS answers about itself, which no AWS has: health, clock, trouble."""

import os
from collections.abc import Mapping
from typing import Any

from moto.core.exceptions import ServiceException

from servable_local.aws.clock import Clock, ManualClock
from servable_local.aws.control_paths import CLOCK_PATH, HEALTH_PATH, TROUBLE_PATH
from servable_local.aws.trouble import Target, make_trouble

Answer = tuple[str, dict[str, Any]]


class Controls:
    """Paths that begin with /servable/; the gateway asks here first."""

    def __init__(self, clock: Clock, target: Target) -> None:
        self._clock = clock
        self._target = target

    def answer(self, path: str, asked: Mapping[str, Any] | None) -> Answer | None:
        """(status line, JSON). `asked` is a POST's body. None: no path of ours."""
        if path == HEALTH_PATH:
            return "200 OK", {"pid": os.getpid()}
        if path == CLOCK_PATH:
            return self._tell_time(asked)
        if path == TROUBLE_PATH and asked is not None:
            try:
                make_trouble(self._target, asked)
            except (KeyError, ValueError, ServiceException) as error:
                return "400 Bad Request", {"error": str(error)}
            return "200 OK", {}
        return None

    def _tell_time(self, asked: Mapping[str, Any] | None) -> Answer:
        """POST {"seconds": 60} moves a clock that is moved by hand."""
        clock = self._clock
        if asked is not None and isinstance(clock, ManualClock):
            clock.advance(seconds=float(asked["seconds"]))
        elif asked is not None:
            return "409 Conflict", {"error": "this clock goes by itself and cannot be moved"}
        return "200 OK", {
            "now": clock.now().isoformat(),
            "seconds_per_minute": clock.seconds_per_minute,
        }
