"""What `servable tune` is asked, and whom it tells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from servable.aws_account import Account
from servable.load.bodies import Body
from servable.tune.objective import Objective
from servable.tune.objective_value import Goal
from servable.tune.search.space import Space
from servable.tune.search.trial import Trial


@dataclass(frozen=True, kw_only=True)
class Asking:
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
class Told:
    """Whom to tell. The first of each is what is said when nothing else is."""

    began: Callable[[Path, Space, int, Objective], None]
    """The run's folder, what may be tried, trials that are done already, the objective."""
    trial: Callable[[Trial, float | None], None]
    """And an estimate of the seconds left."""
    stage: Callable[[str], None]
