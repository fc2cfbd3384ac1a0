"""A copy of an environment's endpoint to load, in the place of the live one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from infra.catalog.prices import price
from infra.parameters.environment import Environment
from servable.aws_account import Account
from servable.load.load import Reached, at_endpoint, serving
from servable.tune.temporary import TemporaryEndpoints, TemporaryError
from servable.tune.temporary.marks import PREFIX


@dataclass(frozen=True, kw_only=True)
class Spending:
    """On a temporary endpoint."""

    budget_usd: float
    instance_type: str | None = None
    """None: as the live one's."""
    usd_per_hour: float | None = None
    """None: the catalog's."""
    told: Callable[[str], None] = lambda line: None


@contextmanager
def temporary(
    environment: Environment,
    bodies: Sequence[str],
    *,
    name: str,
    variant: str | None,
    account: Account,
    spending: Spending,
) -> Iterator[Reached]:
    """A copy of the live endpoint on an instance of its own. Raises Refusal, TemporaryError."""
    region = environment.region

    def usd_per_hour(instance_type: str) -> float | None:
        known = price(instance_type, region)
        return spending.usd_per_hour or (known.usd_per_hour if known else None)

    endpoints = TemporaryEndpoints(
        account.client("sagemaker"),
        budget_usd=spending.budget_usd,
        usd_per_hour=usd_per_hour,
        poll_seconds=0.2 if account.embedded else 5.0,
        told=spending.told,
    )
    live = environment.endpoint.name
    instance_type, chosen = serving(account.client("sagemaker"), live, variant)
    kind = spending.instance_type or instance_type
    try:
        for one in endpoints.sweep():
            spending.told(f"removed, left by an earlier run: {one}")
        with endpoints.like(live, variant=chosen, instance_type=kind) as made:
            spending.told(f"{made} is in service on {kind}")
            yield at_endpoint(account, made, bodies, name=name, variant=chosen, instance_type=kind)
    except (ClientError, BotoCoreError, TimeoutError) as error:
        raise TemporaryError(
            f"{live}: {error}; look whether an endpoint named {PREFIX}… is left, the next run "
            "removes it"
        ) from None
    over = "; the budget ended it" if endpoints.ended_by_budget else ""
    spending.told(f"{made} is deleted; {endpoints.spent_usd:.2f} $ at most{over}")
