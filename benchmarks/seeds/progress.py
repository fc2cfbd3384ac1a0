"""What is being measured, since when, and about how long it will take in all."""

import sys
import time
from collections.abc import Mapping


class Progress:
    """A line on standard error for each step. The estimate follows what earlier ones took."""

    def __init__(self, planned_seconds: Mapping[str, float]) -> None:
        self._planned = dict(planned_seconds)
        self._began = time.monotonic()
        self._all = sum(self._planned.values())
        self._current = ""

    def begin(self, name: str) -> None:
        """What comes before `name` in the plan is done, however long it took."""
        self._current = name
        names = [*self._planned]
        ahead = sum(self._planned[one] for one in names[names.index(name) :])
        self._all = self.seconds + ahead
        self("begins")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __call__(self, text: str) -> None:
        # A step that takes longer than planned is never "95 s of about 90".
        about = max(self._all, self.seconds)
        print(
            f"{self.seconds:5.0f} s of about {about:.0f}  {self._current}: {text}",
            file=sys.stderr,
            flush=True,
        )
