"""A run of `servable tune`: its folder, and what is decided once in it and kept."""

import fcntl
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from model_packaging.beside import beside
from model_packaging.private_folder import private_folder, touch_private
from servable.load.knee import knee
from servable.tune.objective import Objective
from servable.tune.search.space import Point, Space
from servable.tune.trials.trials import Trials

RUNS = Path(".servable") / "tuning"
STUDY = "study.sqlite"
_OBJECTIVE = "objective.json"
_AROUND = "around.json"
_FORM = TypeAdapter(Objective)


class TuneError(Exception):
    """Why nothing was found. `str()` is a whole sentence: what failed, what to do."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two runs of one folder would each spend the whole budget. Raises TuneError."""
    private_folder(folder.parent)
    # Beside it: --new deletes the folder. It ends with the process, however that ends.
    lock = folder.with_name(f"{folder.name}.lock")
    touch_private(lock)
    with lock.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TuneError(
                f"another run of the same question is at work ({lock}); wait, or end it"
            ) from None
        yield


@dataclass(frozen=True, kw_only=True)
class Around:
    """The load around which every trial is measured, the knee of today's settings."""

    users: float
    seconds: float
    """That finding it took."""
    usd: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Run:
    folder: Path
    stage: Callable[[str], None]
    """Is told what comes next."""

    def objective(
        self,
        trials: Trials,
        today: Point,
        *,
        most_ms: float | None,
        stated_ms: float | None,
        percent: float,
    ) -> Objective:
        """Decided once: a resumed run is held to the same."""
        kept = self.folder / _OBJECTIVE
        if kept.exists():
            return _FORM.validate_json(kept.read_bytes())
        if most_ms is not None:
            found = Objective(percent=percent, most_ms=most_ms)
        else:
            self.stage("one caller alone, at today's settings")
            found = trials.objective(today, stated_ms if percent == 99.0 else None, percent)
        _write(kept, _FORM.dump_json(found))
        return found

    def around(self, trials: Trials, tried: Space, today: Point, objective: Objective) -> Around:
        kept = self.folder / _AROUND
        if kept.exists():
            return Around(**json.loads(kept.read_text(encoding="utf-8")))
        self.stage("the load curve of today's settings")
        began, spent_usd = time.monotonic(), trials.spent_usd
        point = tried.point(tried.nearest(today))
        found = knee(trials.full_curve(point, objective, "today"), objective)
        around = Around(
            users=max(2.0, round(found.load.value)) if found else 2.0,
            seconds=time.monotonic() - began,
            usd=trials.spent_usd - spent_usd,
        )
        _write(kept, json.dumps(around.__dict__).encode())
        return around


def run_key(asked: Sequence[Any]) -> str:
    """Of what a run is asked: another question is another run."""
    return hashlib.sha256(json.dumps([repr(one) for one in asked]).encode()).hexdigest()[:10]


def _write(file: Path, content: bytes) -> None:
    with beside(file) as to:
        to.write(content)
