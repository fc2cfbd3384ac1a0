"""A run of `servable tune`: its options, progress callbacks, and result folder."""

import fcntl
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement
from model_packaging.beside import create_private_folder, open_private
from model_packaging.tree import compute_sha256
from servable.console.lines import SILENT_SECONDS
from servable.load.objective import Goal, Objective
from servable.measured.measurement import Body, LoadError
from servable.measured.precision import format_number
from servable.measured.targets import find_usd_per_hour
from servable.measured.temporary import LiveVariant, read_live_variant
from servable.project.account import Account
from servable.serve.serve import prepare_variant
from servable.tune.container_space import Machines, build_current_point, build_machines
from servable.tune.search.space import BATCH_SIZE, Trial, format_value

RUNS = Path(".servable") / "tuning"
TRIALS_FILE = "trials.jsonl"


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


class TuneProgress:
    """Prints progress on stderr, so that stdout contains only the result."""

    def __init__(self, most_trials: int) -> None:
        self._most_trials = most_trials
        self._said_at = time.monotonic()

    def print_start(
        self, folder: Path, machines: Machines, done: int, objective: Objective
    ) -> None:
        """Print what is tried. `done`: number of trials that an earlier run completed."""
        self.print_line(f"{len(machines.space):,} combinations of settings; {objective}; {folder}")
        for why in dict.fromkeys(machines.left_out.values()):
            names = [name for name, reason in machines.left_out.items() if reason == why]
            self.print_line(f"not tried: {', '.join(names)}: {why}")
        if done:
            self.print_line(f"{done} trials of an earlier run are kept")

    def print_trial(self, one: Trial) -> None:
        about = one.measured.about
        found = f"{format_number(about['rps']['value'])} requests/s" if "rps" in about else "-"
        if about.get("usd") and "usd_per_million" in about:
            found += f", {about['usd_per_million']:.3g} $ per million"
        # Settings of batching say nothing if it is off.
        unbatched = one.point.get(BATCH_SIZE, 0) is None
        settings = " ".join(
            f"{name}={format_value(value)}"
            for name, value in one.point.items()
            if value is not None and not (name.startswith("batching.") and unbatched)
        )
        line = f"{one.number + 1:3d}/{self._most_trials}  {found:<18} {settings}"
        self.print_line(line + (f"  ({one.measured.failure})" if one.measured.failure else ""))

    def print_line(self, text: str) -> None:
        self._said_at = time.monotonic()
        click.echo(text, err=True)

    def print_step(self, load: float, known: dict[str, Any]) -> None:
        # Without a line, a long measurement looks as if it hangs.
        if time.monotonic() - self._said_at > SILENT_SECONDS:
            users = f"{format_number(load)} user{'s' if load != 1 else ''}"
            self.print_line(f"     at {users}, {format_number(known['rps'])} requests/s so far")


@dataclass(frozen=True)
class Run:
    """One search. A different model, body, goal, limit, or setting has a different folder."""

    loaded: ValidFile
    placement: Placement
    options: TuneOptions
    progress: TuneProgress

    @cached_property
    def machines(self) -> Machines:
        """Return what to try.

        Raises LoadError, also if a price is missing; ValueError for a setting or type that can't be tried.
        """
        if self.placement.served.multi_model:
            raise LoadError(
                "can't tune a multi-model endpoint: its throughput depends on which models are loaded"
            )
        options, environment = self.options, self.loaded.environment
        found = build_machines(
            self.loaded, self.placement, options.only, options.instance_types, options.bodies
        )
        if len(found.space) < 2:
            reasons = "; ".join(f"{name}: {why}" for name, why in found.left_out.items())
            raise LoadError(f"there are no other settings to try ({reasons}); pass different ones")
        priced = options.account is not None or options.goal == "cost"
        unknown = [kind for kind in found.kinds if find_usd_per_hour(environment, kind) is None]
        if priced and unknown:
            raise LoadError(
                f"{', '.join(unknown)}: the price is unknown; set it in prices.instance_usd_per_hour"
            )
        return found

    @cached_property
    def archive(self) -> Path:
        """Return the model's archive on this computer."""
        archive = prepare_variant(self.loaded, variant=self.placement.name).archive
        assert archive is not None  # one model, as `machines` has seen
        return archive

    @cached_property
    def model(self) -> LiveVariant | str:
        """Return the deployed variant to copy, or the digest of the local container's archive."""
        if self.options.account is None:
            return compute_sha256(self.archive)
        client = self.options.account.client("sagemaker")
        return read_live_variant(client, self.loaded.environment.endpoint.name, self.placement.name)

    @cached_property
    def folder(self) -> Path:
        options, environment, tried = self.options, self.loaded.environment, self.machines.space
        # The given limit and the alarm's make different folders, even if they are equal.
        stated_ms = environment.alarms.p99_latency_ms if options.most_ms is None else None
        # Prices decide only what is cheapest.
        prices = environment.prices.instance_usd_per_hour if options.goal == "cost" else {}
        account = options.account
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
    """Lock a folder, so that two runs don't both spend the budget. Raises LoadError if it is locked."""
    create_private_folder(folder.parent)
    # Next to the folder, which --new deletes. The lock ends with the process, even if it is killed.
    lock = folder.with_name(f"{folder.name}.lock")
    with open(lock, "a", opener=open_private) as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LoadError(
                f"another run of the same search is in progress ({lock}); wait for it to finish, or stop it"
            ) from None
        yield
