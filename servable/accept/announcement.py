"""The announcement of a run, before anything is done: steps, quotas, names, time and worst cost."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import click

from infra.parameters.environment import Environment
from infra.policy.acceptance_policy import PREFIX, TAG
from infra.policy.sizing import HOURS_PER_MONTH
from servable.accept.project import KINDS, SCALED_MAIN_INSTANCES, InstanceChoice
from servable.accept.run import DELETING_MINUTES
from servable.accept.steps import AcceptStep
from servable.cost.cost import Cost, cost

DEPLOYING_MINUTES = 15.0
"""A first deployment with its instance; slow ones took 20 to 25 (sagemaker-feedback #189, 2025-06-25)."""


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """All that is said before a run begins."""

    account: str
    caller: str
    region: str
    aws: str
    steps: Sequence[AcceptStep]
    choice: InstanceChoice
    usd_at_most: float
    usd_per_hour: Mapping[str, float]
    """Environment to its dearest hour."""
    without_price: tuple[str, ...]
    priced_on: tuple[str, ...]
    """Dates of the catalog's prices."""
    minutes_at_most: float
    bootstrapped: bool
    waves: tuple[tuple[str, ...], ...]
    """Environments that are there at the same time."""

    def show(self, dollars: float) -> None:
        """Print it to stderr, the questions' place."""
        echo = partial(click.echo, err=True)
        echo(f"{self.aws}, account {self.account}, region {self.region}, as {self.caller}")
        width = max(len(step.name) for step in self.steps)
        for step in self.steps:
            line = f"{step.proves}{_quota(step, self.choice)}"
            if reason := self.choice.left_out.get(step.environment):
                line = f"left out: {reason}"
            echo(f"  {step.name:{width}}  {line}")
        if not self.bootstrapped:
            echo(
                "the account is not bootstrapped for the CDK: `cdk bootstrap` is run, and removed at the end"
            )
        echo(
            f"names: everything begins with {PREFIX}- and has the tag {TAG}; nothing else is touched, and "
            "all of it is deleted at the end, or later by `servable accept --clean`"
        )
        if len(self.waves) > 1:
            waves = "; then ".join(", ".join(wave) for wave in self.waves)
            echo(f"the quota does not hold all at once: {waves}")
        dates = ", ".join(self.priced_on) or "nothing"
        unknown = ", ".join(self.without_price)
        unknown = f"; without {unknown}, of which no price is known" if unknown else ""
        echo(
            f"at most {self.minutes_at_most:g} minutes and ${self.usd_at_most:.2f} of ${dollars:g}, by the "
            f"catalog's prices of {dates}{unknown}"
        )


def waves(kinds: Sequence[str], choice: InstanceChoice) -> list[list[str]]:
    """Return the environments in groups that the quota of the instance type holds at once, in order."""
    groups: list[list[str]] = []
    used = 0
    for kind in kinds:
        count = instances(kind, choice)
        if groups and (choice.capacity is None or used + count <= choice.capacity):
            groups[-1].append(kind)
            used += count
        else:
            groups.append([kind])
            used = count
    return groups


def instances(kind: str, choice: InstanceChoice) -> int:
    """The most instances that an environment has at once, of an update's two fleets too."""
    scaled = kind == "main" and choice.scaled
    return SCALED_MAIN_INSTANCES if scaled else KINDS[kind].endpoint_instances


def usd_per_hour(kind: str, choice: InstanceChoice, of: Cost) -> float | None:
    """Return the dearest hour of an environment; None where no source states a price."""
    standing = (of.standing.usd_per_month or 0.0) / HOURS_PER_MONTH
    if all(variant.paid_by_use for variant in of.variants):
        # Every request of the run together is less than a minute of both containers.
        busy = sum(variant.usd_per_hour("max_instances") or 0.0 for variant in of.variants) / 60
        return standing + busy
    each = max((variant.usd_per_instance_hour or 0.0 for variant in of.variants), default=0.0)
    if of.unknown:
        return None
    return standing + each * instances(kind, choice)


def announce(
    *,
    account: str,
    caller: str,
    region: str,
    aws: str,
    steps: Iterable[AcceptStep],
    choice: InstanceChoice,
    environments: Mapping[str, Environment],
    minutes: float,
    bootstrapped: bool,
) -> Announcement:
    """Return the announcement. `environments`: kind to its settings."""
    steps = list(steps)
    costs = {kind: cost(kind, environment) for kind, environment in environments.items()}
    groups = waves(list(environments), choice)
    hourly = {kind: usd_per_hour(kind, choice, of) for kind, of in costs.items()}
    usd = sum(_usd(steps, groups, hourly, costs, minutes))
    without = [
        name for kind, hour in hourly.items() if hour is None for name in costs[kind].unknown
    ]
    dates = {
        price for one in costs.values() for variant in one.variants if (price := variant.priced_on)
    }
    return Announcement(
        account=account,
        caller=caller,
        region=region,
        aws=aws,
        steps=steps,
        choice=choice,
        usd_at_most=round(usd, 4),
        usd_per_hour={kind: hour or 0.0 for kind, hour in hourly.items()},
        without_price=tuple(dict.fromkeys(without)),
        priced_on=tuple(sorted(dates)),
        minutes_at_most=min(
            minutes,
            _minutes(steps, lambda step: not step.environment)
            + sum(_worst_minutes(steps, group) for group in groups),
        ),
        bootstrapped=bootstrapped,
        waves=tuple(map(tuple, groups)),
    )


def _usd(
    steps: Sequence[AcceptStep],
    groups: Iterable[Sequence[str]],
    hourly: Mapping[str, float | None],
    costs: Mapping[str, Cost],
    minutes: float,
) -> Iterator[float]:
    """Yield US dollars at most, of each environment and each batch."""
    for group in groups:
        hours = min(minutes, _worst_minutes(steps, group)) / 60
        for kind in group:
            yield (hourly[kind] or 0.0) * hours
            for job in costs[kind].batches:
                of_batch = _minutes(steps, lambda step: step.environment == "batch")
                yield job.usd_per_run(of_batch) or 0.0


def _minutes(steps: Iterable[AcceptStep], counts: Callable[[AcceptStep], bool]) -> int:
    return round(sum(step.minutes for step in steps if counts(step)))


def _worst_minutes(steps: Iterable[AcceptStep], group: Iterable[str]) -> float:
    kinds = {*group, *(["batch"] if "serverless" in group else [])}
    return (
        DEPLOYING_MINUTES
        + _minutes(steps, lambda step: step.environment in kinds)
        + DELETING_MINUTES
    )


def _quota(step: AcceptStep, choice: InstanceChoice) -> str:
    if step.environment == "batch":
        return f" [{choice.batch_type} for transform job usage: 1]"
    count = instances(step.environment, choice) if step.environment else 0
    return f" [{choice.instance_type} for endpoint usage: {count}]" if count else ""
