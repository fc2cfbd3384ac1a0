"""A run of `servable tune`: what is asked, its folder, and what is decided once in it and kept."""

import fcntl
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter

from infra.parameters.environment import Environment
from infra.parameters.loading import Loaded
from infra.preflight.placement import Placement
from model_packaging.beside import beside
from model_packaging.digest import sha256_of
from model_packaging.private_folder import private_folder, touch_private
from servable.aws_account.deployed import Account
from servable.load.knee import knee
from servable.load.load_target import Body
from servable.load.temporary.live import LiveVariant, live_variant
from servable.serve.serve import prepared
from servable.tune.container_space import current
from servable.tune.machine_space import Machines, machines
from servable.tune.objective import Goal, Objective
from servable.tune.search.space import Space
from servable.tune.search.trial import Trial
from servable.tune.trials import Trials

RUNS = Path(".servable") / "tuning"
STUDY = "study.sqlite"
_OBJECTIVE = "objective.json"
_AROUND = "around.json"


class TuneError(Exception):
    """Why nothing was found. `str()` is a whole sentence: what failed, what to do."""


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What is to be found, and with what."""

    bodies: Sequence[Body]
    body_names: tuple[str, ...]
    percent: float = 99.0
    most_ms: float | None = None
    """None: the file's alarm, where this machine can meet it."""
    goal: Goal = "throughput"
    only: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    """Beside today's; none: it stays."""
    account: Account | None = None
    """Whose live endpoint is copied for each trial; None: the double on this machine."""
    trials: int = 40
    minutes: float | None = None
    """At most; None: any. Of everything, with the two load curves around the trials."""
    dollars: float = 0.0
    """Of temporary endpoints, earlier runs of the same question included."""
    usd_per_hour: float | None = None
    """Of today's instance type; None: the catalog's."""
    force_local_numbers: bool = False


@dataclass(frozen=True, kw_only=True)
class TuneProgress:
    """Who is told what happens."""

    began: Callable[[Path, Space, int, Objective], None]
    """The run's folder, what may be tried, trials that are done already, the objective."""
    trial: Callable[[Trial, float | None], None]
    """And an estimate of the seconds left."""
    stage: Callable[[str], None]
    """What comes next."""


@dataclass(frozen=True, kw_only=True)
class Around:
    """The load around which every trial is measured, the knee of today's settings."""

    users: float
    seconds: float
    """That finding it took."""
    usd: float = 0.0


@dataclass(frozen=True)
class Run:
    """Of one question; another model, body, goal, limit or setting is another run."""

    loaded: Loaded
    placement: Placement
    options: TuneOptions
    progress: TuneProgress

    @property
    def environment(self) -> Environment:
        assert self.loaded.environment is not None  # it was placed
        return self.loaded.environment

    @cached_property
    def machines(self) -> Machines:
        """What may be tried. Raises TuneError, and ValueError for what cannot be asked."""
        if self.placement.served.multi_model:
            raise TuneError(
                "several models behind one endpoint: which are loaded decides, not tune"
            )
        options = self.options
        found = machines(
            self.loaded, self.placement, only=options.only, instance_types=options.instance_types
        )
        if not len(found.space):
            raise TuneError("no setting may be tried: all are refused; see `servable check`")
        return found

    @cached_property
    def model(self) -> LiveVariant | str:
        """The live variant that is copied, or the digest of the archive that is served here."""
        if self.options.account is not None:
            client = self.options.account.client("sagemaker")
            return live_variant(client, self.environment.endpoint.name, self.placement.name)
        archive = prepared(self.loaded, variant=self.placement.name).archive
        assert archive is not None  # one model, as `machines` has seen
        return sha256_of(archive)

    @cached_property
    def folder(self) -> Path:
        options, tried, account = self.options, self.machines.space, self.options.account
        # The limit that is given, else the one that it is found from: neither stands for the other.
        stated_ms = self.environment.alarms.p99_latency_ms if options.most_ms is None else None
        asked = [
            *(self.model, tried.keys, tried.names, current(self.placement)),
            *(hashlib.sha256(one.content).hexdigest() for one in options.bodies),
            *(options.percent, options.most_ms, stated_ms, options.goal, options.usd_per_hour),
            account and (account.number, account.client("sagemaker").meta.endpoint_url),
        ]
        key = hashlib.sha256(json.dumps([repr(one) for one in asked]).encode()).hexdigest()[:10]
        return self.loaded.root / RUNS / f"{self.loaded.name}-{self.placement.name}-{key}"

    def objective(self, trials: Trials) -> Objective:
        """Decided once: a resumed run is held to the same."""
        kept, form = self.folder / _OBJECTIVE, TypeAdapter(Objective)
        if kept.exists():
            return form.validate_json(kept.read_bytes())
        percent, most_ms = self.options.percent, self.options.most_ms
        if most_ms is not None:
            found = Objective(percent=percent, most_ms=most_ms)
        else:
            self.progress.stage("one caller alone, at today's settings")
            stated_ms = self.environment.alarms.p99_latency_ms if percent == 99.0 else None
            found = trials.objective(self.machines.wanted[0], stated_ms, percent)
        _write(kept, form.dump_json(found))
        return found

    def around(self, trials: Trials, objective: Objective) -> Around:
        kept = self.folder / _AROUND
        if kept.exists():
            return Around(**json.loads(kept.read_text(encoding="utf-8")))
        self.progress.stage("the load curve of today's settings")
        began, spent_usd = time.monotonic(), trials.spent_usd
        tried = self.machines.space
        point = tried.point(tried.nearest(self.machines.wanted[0]))
        found = knee(trials.full_curve(point, objective, "today"), objective)
        around = Around(
            users=max(2.0, round(found.load.value)) if found else 2.0,
            seconds=time.monotonic() - began,
            usd=trials.spent_usd - spent_usd,
        )
        _write(kept, json.dumps(around.__dict__).encode())
        return around


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


def _write(file: Path, content: bytes) -> None:
    with beside(file) as to:
        to.write(content)
