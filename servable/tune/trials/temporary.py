"""Trials in SageMaker: each is a temporary endpoint, a copy of the live one with other settings."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.environment import Environment
from infra.parameters.loading import Loaded
from servable.aws_account import Account
from servable.load.bodies import Body
from servable.load.load import Reached, at_endpoint
from servable.load.load_generator import LoadError
from servable.load.pace import Pace
from servable.serve.serve import prepared
from servable.tune.machine_space import Machines
from servable.tune.objective import Objective
from servable.tune.objective_value import Goal
from servable.tune.search.space import Point
from servable.tune.temporary import (
    BudgetSpentError,
    NotInServiceError,
    TemporaryEndpoints,
    TemporaryError,
)
from servable.tune.temporary.ledger import Ledger
from servable.tune.temporary.live import LiveVariant
from servable.tune.temporary.marks import PREFIX
from servable.tune.trials.trials import NotServedError, Trials

# In the run's folder: what was spent, also by runs that were killed.
LEDGER = "dollars.json"
# The model is the live one's, wherever it lies.
LIVE_ARCHIVE = Path("live")


class TemporaryTrials(Trials):
    # An endpoint takes minutes to be made: some more seconds of it cost little.
    trial_pace = Pace(warm_up_seconds=3.0, least_seconds=6.0, most_seconds=20.0)
    curve_pace = Pace(warm_up_seconds=3.0, least_seconds=6.0, most_seconds=30.0)

    def __init__(
        self,
        machines: Machines,
        bodies: Sequence[Body],
        account: Account,
        folder: Path,
        *,
        body_names: Sequence[str],
        live: LiveVariant,
        budget_usd: float,
        goal: Goal = "throughput",
        told: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Removes first what earlier runs left. Raises TemporaryError."""
        super().__init__(machines, bodies, folder, goal=goal)
        one = machines.kinds[machines.today]
        assert one.loaded.environment is not None  # it was placed
        self._environment: Environment = one.loaded.environment
        self._account, self._live, self._body_names = account, live, body_names
        self._budget_usd = budget_usd
        self._now = self._variables(one.loaded, one.placement.name)
        self._endpoints = TemporaryEndpoints(
            account.client("sagemaker"),
            budget_usd=budget_usd,
            usd_per_hour=self.price_of,
            poll_seconds=0.1 if account.embedded else 5.0,
            ledger=Ledger(folder / LEDGER),
            told=told,
        )
        with _said(self._environment.endpoint.name):
            for left in self._endpoints.sweep():
                told(f"removed, left by an earlier run: {left}")

    @property
    def spent_usd(self) -> float:
        return self._endpoints.spent_usd

    def objective(self, today: Point, stated_ms: float | None, percent: float) -> Objective:
        """The file's limit holds where it is deployed; only without one an endpoint is asked."""
        if stated_ms is not None:
            return Objective(percent=percent, most_ms=stated_ms)
        return super().objective(today, stated_ms, percent)

    def _variables(self, loaded: Loaded, name: str) -> dict[str, str]:
        """What the stack would deploy; nothing is packed for it."""
        return prepared(loaded, variant=name, archive=LIVE_ARCHIVE).variables

    @contextmanager
    def reached(self, point: Point) -> Iterator[Reached]:
        one = self.machines.of(point)
        kind = self.machines.kind_of(point)
        name = one.placement.name
        wanted = self._variables(one.at(point), name)
        # What the live one has beside the settings stays: its model's digest, the user's own.
        kept = {key: text for key, text in self._live.variables.items() if key not in self._now}
        variables = {**kept, **wanted}
        endpoint = self._environment.endpoint.name
        made = self._endpoints.like(self._live, instance_type=kind, variables=variables)
        with _said(endpoint):
            try:
                with made as temporary:
                    yield at_endpoint(
                        self._account,
                        temporary,
                        self._body_names,
                        name=one.loaded.name,
                        variant=name,
                        instance_type=kind,
                        model_at=self._live.archive,
                    )
            except (NotInServiceError, LoadError, BotoCoreError, ClientError) as error:
                # Whatever it was that the budget's end looked like.
                self._within_budget()
                if isinstance(error, NotInServiceError):
                    raise NotServedError(str(error)) from None
                raise
        self._within_budget()

    def _within_budget(self) -> None:
        if self._endpoints.ended_by_budget:
            raise BudgetSpentError(
                f"the budget of {self._budget_usd:g} $ ended a measurement"
            ) from None


@contextmanager
def _said(endpoint: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError, TimeoutError) as error:
        raise TemporaryError(
            f"{endpoint}: {error}; look whether an endpoint named {PREFIX}… is left, the next run "
            "removes it"
        ) from None
