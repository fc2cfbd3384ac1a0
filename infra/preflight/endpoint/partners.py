"""Rules about keys that need another key of the same file: to have an effect, or to be in order."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from infra.parameters.alarms import WATCHED
from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.parameters.rollout import SHARE
from infra.preflight.rule import Findings, Rule

TARGETS = (
    "max_rps_per_instance",
    "max_concurrency_per_instance",
    "max_backlog_per_instance",
    "provisioned_use_percent",
)


class _Partner(NamedTuple):
    """Partner of a key: without it the key has no effect."""

    needs: str
    """The partner, as the file writes it."""
    holds: Callable[[Environment], bool]


def _strategy(name: str) -> _Partner:
    def chosen(environment: Environment) -> bool:
        return environment.rollout is None or environment.rollout.strategy == name

    return _Partner(f'rollout.strategy = "{name}"', chosen)


def _published(metric: str) -> _Partner:
    needs = f"an endpoint that publishes {metric}, which this kind does not"
    return _Partner(needs, lambda environment: environment.kind.publishes(metric))


def _scaled(name: str, keys: tuple[str, ...]) -> _Partner:
    def targeted(environment: Environment) -> bool:
        scaling = environment.variants[name].scaling
        return scaling is None or any(getattr(scaling, key) for key in keys)

    return _Partner(f"{', '.join(keys[:-1])} or {keys[-1]}", targeted)


_QUEUE = _Partner("[asynchronous]", lambda environment: environment.kind.queued)
_MAXIMUM = _Partner(
    "[variants.NAME.scaling], and max_instances above min_instances",
    lambda environment: any(
        variant.scales and variant.capacity[1] > variant.capacity[0]
        for variant in environment.variants.values()
    ),
)


def _partners(environment: Environment, gpus: bool) -> Iterator[tuple[str, _Partner]]:
    """(key, its partner): a key has as many rows as partners. `gpus`: an instance type may have one."""
    for strategy, key in SHARE.items():
        yield f"rollout.{key}", _strategy(strategy)
    yield "rollout.rollback_batch_percent", _strategy("rolling")
    for alarms in WATCHED.values():
        for _, metric, _, key in alarms.values():
            if metric.startswith("GPU") and environment.kind.publishes(metric):
                yield f"alarms.{key}", _Partner("an instance type with a GPU", lambda _: gpus)
            else:
                yield f"alarms.{key}", _published(metric)
    yield "alarms.no_traffic_minutes", _published("Invocations")
    yield "alarms.oldest_request_minutes", _QUEUE
    yield "alarms.async_failures_per_minute", _QUEUE
    yield "alarms.at_max_minutes", _MAXIMUM
    for name in environment.variants:
        key = f"variants.{name}"
        yield f"{key}.scaling.safety_factor", _scaled(name, TARGETS[:3])
        for cooldown in ("scale_out_cooldown_seconds", "scale_in_cooldown_seconds"):
            yield f"{key}.scaling.{cooldown}", _scaled(name, (*TARGETS, "steps"))


class KeyWithoutPartner(Rule):
    """A key that only another key gives an effect changes nothing without it, and nothing says so.

    What a base file sets for several environments is not reported in those that do not need it.
    Source: infra/parameters (which key reads which), infra/catalog/metrics.json (which endpoints publish
    what)
    """

    severity = Severity.WARNING
    example = """\
alarms.p99_latency_ms = 100
rollout = { strategy = "canary", step_percent = 20 }"""
    remedy = "take it out, or set what it needs"

    def look(self) -> Findings:
        # A type that is not known, which another rule reports, may have a GPU.
        instances = self.candidate.instances
        unknown = len(instances) < len(self.candidate.instance_keys)
        gpus = unknown or any(instance.gpus for _, instance in instances.values())
        for key, partner in _partners(self.environment, gpus):
            path = tuple(key.split("."))
            own = self.loaded.source.origins.get(path) == self.loaded.file
            if own and not partner.holds(self.environment):
                given = self.candidate.value_of(key)
                yield self.finding(
                    key,
                    f"{path[-1]} {given:g} has no effect here",
                    allowed=f"only with {partner.needs}",
                )


# A key, the key that it must not exceed, and what happens otherwise.
_ORDER: Mapping[tuple[str, str], str] = {
    ("alarms.p50_latency_ms", "alarms.p90_latency_ms"): "the alarm of p90 always fires first",
    ("alarms.p50_latency_ms", "alarms.p99_latency_ms"): "the alarm of p99 always fires first",
    ("alarms.p90_latency_ms", "alarms.p99_latency_ms"): "the alarm of p99 always fires first",
    ("traffic.quiet_rps", "traffic.peak_rps"): "the quietest hour has more than the busiest minute",
}


class KeysCrossed(Rule):
    """Two keys of which one can only be as large as the other: one of them is mistaken.

    Source: the definition of a percentile (a higher one is never below a lower one)
    """

    severity = Severity.WARNING
    example = """\
alarms.p50_latency_ms = 200
alarms.p99_latency_ms = 100"""
    remedy = "correct one of them"

    def look(self) -> Findings:
        for (lower, upper), why in _ORDER.items():
            low: Any = self.candidate.value_of(lower)
            high: Any = self.candidate.value_of(upper)
            if low is not None and high is not None and low > high:
                yield self.finding(
                    lower,
                    f"{lower.split('.')[1]} {low:g} is above {upper.split('.')[1]} {high:g}: {why}",
                    allowed=f"at most {high:g}",
                    reads=(upper,),
                )
