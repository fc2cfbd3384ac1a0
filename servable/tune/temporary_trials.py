"""Trials in SageMaker: each is a temporary endpoint, a copy of the live one with other settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.loading import ValidFile
from servable.load.load_generator import LoadError
from servable.load.load_target import Pace
from servable.load.objective import Objective
from servable.load.reached import ReadyTarget, at_endpoint
from servable.load.temporary.endpoints import (
    BudgetSpentError,
    Ledger,
    LiveVariant,
    NotInServiceError,
    TemporaryEndpoints,
    explained,
)
from servable.serve.serve import prepared
from servable.tune.run import Run
from servable.tune.search.space import Point
from servable.tune.trials import NotServedError, Trials

# In the run's folder: what was spent, also by runs that were killed.
LEDGER = "dollars.json"
# The model is the live one's, wherever it lies.
LIVE_ARCHIVE = Path("live")


class TemporaryTrials(Trials):
    # An endpoint takes minutes to be made: some more seconds of it cost little.
    trial_pace = Pace(warm_up_seconds=3.0, least_seconds=6.0, most_seconds=20.0)
    curve_pace = Pace(warm_up_seconds=3.0, least_seconds=6.0, most_seconds=30.0)

    def __init__(self, run: Run) -> None:
        """Removes first what earlier runs left. Raises TemporaryError."""
        super().__init__(run)
        account, live = run.options.account, run.model
        assert account is not None  # the caller has looked
        assert isinstance(live, LiveVariant)  # comes with the account
        self._account, self._live = account, live
        # In SageMaker five to ten minutes.
        self.start_seconds = 5.0 if account.embedded else 420.0
        self._now = self._variables(run.loaded)
        self._endpoints = TemporaryEndpoints(
            account.client("sagemaker"),
            budget_usd=run.options.dollars,
            usd_per_hour=self.price_of,
            poll_seconds=0.1 if account.embedded else 5.0,
            ledger=Ledger(run.folder / LEDGER),
            told=run.progress.stage,
        )
        with explained(run.environment.endpoint.name):
            self._endpoints.sweep()

    @property
    def spent_usd(self) -> float:
        return self._endpoints.spent_usd

    def _objective(self, stated_ms: float | None) -> Objective:
        """The file's limit holds where it is deployed; only without one an endpoint is asked."""
        if stated_ms is not None:
            return Objective(most_ms=stated_ms)
        return super()._objective(stated_ms)

    def _variables(self, loaded: ValidFile) -> dict[str, str]:
        """Container variables that the stack would deploy; nothing is packed for them."""
        name = self._run.placement.name
        return prepared(loaded, variant=name, archive=LIVE_ARCHIVE).variables

    @contextmanager
    def reached(self, point: Point) -> Iterator[ReadyTarget]:
        run, kind = self._run, self.machines.kind_of(point)
        # What the live one has beside the settings stays: its model's digest, the user's own.
        kept = {key: text for key, text in self._live.variables.items() if key not in self._now}
        variables = {**kept, **self._variables(self.machines.of(point).at(point))}
        with explained(run.environment.endpoint.name):
            try:
                with self._endpoints.like(
                    self._live, instance_type=kind, variables=variables
                ) as temporary:
                    yield at_endpoint(
                        self._account,
                        temporary,
                        run.options.body_names,
                        name=run.loaded.name,
                        variant=run.placement.name,
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
                f"the budget of {self._run.options.dollars:g} $ ended a measurement"
            ) from None
