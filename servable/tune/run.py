"""A run of `servable tune`: its options, progress callbacks, and result folder."""

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from model_packaging.beside import create_private_folder, touch_private
from model_packaging.tree import compute_sha256
from servable.load.measurement import Body
from servable.load.objective import Goal, Objective
from servable.load.temporary import LiveVariant, read_live_variant
from servable.project.account import Account
from servable.serve.serve import prepare_variant
from servable.tune.container_space import Machines, build_current_point, build_machines
from servable.tune.search.space import Trial

RUNS = Path(".servable") / "tuning"
TRIALS_FILE = "trials.jsonl"


class TuneError(Exception):
    """The search failed. `str()` is a complete sentence with the failure and its fix."""


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    bodies: Sequence[Body]
    body_names: tuple[str, ...]
    most_ms: float | None = None
    """Latency limit; None: the file's alarm, if this computer can meet it."""
    goal: Goal = "throughput"
    only: tuple[str, ...] = ()
    """Settings that may change; empty: all."""
    instance_types: tuple[str, ...] = ()
    """Besides today's."""
    account: Account | None = None
    """Account whose endpoint is copied for each trial; None: the local container."""
    trials: int = 40
    minutes: float | None = None
    """Maximum for everything, with the two load curves; None: no limit."""
    dollars: float = 0.0
    """Budget of temporary endpoints, including earlier runs of the same search."""
    force_local_numbers: bool = False


@dataclass(frozen=True, kw_only=True)
class TuneProgress:
    """The callbacks for the progress of a search."""

    began: Callable[[Path, Machines, int, Objective], None]
    """Folder of the run, what is tried, number of complete trials, objective."""
    trial: Callable[[Trial], None]
    """A finished trial."""
    stage: Callable[[str], None]
    """Description of the stage that begins."""
    step: Callable[[float, dict[str, Any]], None]
    """Several times a second: the current load, and its results so far."""


@dataclass(frozen=True)
class Run:
    """One search. A different model, body, goal, limit, or setting has a different folder."""

    loaded: ValidFile
    placement: Placement
    options: TuneOptions
    progress: TuneProgress

    @property
    def environment(self) -> Environment:
        return self.loaded.environment

    @cached_property
    def machines(self) -> Machines:
        """Return what to try. Raises TuneError; ValueError for a setting or type that can't be tried."""
        if self.placement.served.multi_model:
            raise TuneError(
                "can't tune a multi-model endpoint: its throughput depends on which models are loaded"
            )
        options = self.options
        found = build_machines(
            self.loaded,
            self.placement,
            only=options.only,
            instance_types=options.instance_types,
            bodies=options.bodies,
        )
        if len(found.space) < 2:
            reasons = "; ".join(f"{name}: {why}" for name, why in found.left_out.items())
            raise TuneError(f"there are no other settings to try ({reasons}); pass different ones")
        return found

    @cached_property
    def model(self) -> LiveVariant | str:
        """Return the deployed variant to copy, or the digest of the local container's archive."""
        if self.options.account is not None:
            client = self.options.account.client("sagemaker")
            return read_live_variant(client, self.environment.endpoint.name, self.placement.name)
        archive = prepare_variant(self.loaded, variant=self.placement.name).archive
        assert archive is not None  # one model, as `machines` has seen
        return compute_sha256(archive)

    @cached_property
    def folder(self) -> Path:
        options, tried, account = self.options, self.machines.space, self.options.account
        # The given limit and the alarm's make different folders, even if they are equal.
        stated_ms = self.environment.alarms.p99_latency_ms if options.most_ms is None else None
        # Prices decide only what is cheapest.
        prices = self.environment.prices.instance_usd_per_hour if options.goal == "cost" else {}
        asked = [
            *(self.model, tried.keys, tried.names, build_current_point(self.placement)),
            *(hashlib.sha256(one.content).hexdigest() for one in options.bodies),
            *(Objective.percent, options.most_ms, stated_ms, options.goal, sorted(prices.items())),
            account and (account.number, account.client("sagemaker").meta.endpoint_url),
        ]
        key = hashlib.sha256(json.dumps([repr(one) for one in asked]).encode()).hexdigest()[:10]
        return self.loaded.root / RUNS / f"{self.loaded.name}-{self.placement.name}-{key}"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, so that two runs don't both spend the budget. Raises TuneError if it is locked."""
    create_private_folder(folder.parent)
    # Next to the folder, which --new deletes. The lock ends with the process, even if it is killed.
    lock = folder.with_name(f"{folder.name}.lock")
    touch_private(lock)
    with lock.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TuneError(
                f"another run of the same search is in progress ({lock}); wait for it to finish, or stop it"
            ) from None
        yield
