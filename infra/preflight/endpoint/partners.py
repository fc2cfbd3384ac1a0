"""Rules about keys that need something else: a key of the same file, a path, or a type that is used."""

import itertools
from collections.abc import Iterator
from typing import Any

from infra.catalog.limits import find_documented_limit
from infra.parameters.environment import Environment
from infra.parameters.finding import Severity, suggest_path
from infra.parameters.monitoring import PERCENTILE_KEYS, WATCHED, Alarms
from infra.parameters.rollout import SHARE
from infra.policy.container import find_worker_class
from infra.preflight.rule import Candidate, Findings, Rule

MS_PER_SECOND = MICROS_PER_MS = 1000
TARGETS = (
    "max_rps_per_instance",
    "max_concurrency_per_instance",
    "max_backlog_per_instance",
    "provisioned_use_percent",
)


_Row = tuple[str, str, object, str]
_Limit = tuple[str, float | None, str, float | None, str]
_INERT = "has no effect here"
# What only an endpoint has a use for, and the keys of [alarms] that batches have one for too.
_OF_ENDPOINTS = (
    "rollout", "capture", "asynchronous", "replay", "metrics", "endpoint.callers",
    "endpoint.wake_seconds",
)  # fmt: skip
_OF_BATCHES = ("notify", "topic_kms_key", "runbook")


def _list_partners(candidate: Candidate) -> Iterator[_Row]:
    """Yield (key, what it needs as a file writes it, whether that is there, the effect otherwise).

    A key has as many rows as partners.
    """
    environment, kind = candidate.environment, candidate.environment.kind
    for name, batch in environment.batch.items():
        yield f"batch.{name}.timezone", "schedule", batch.schedule, _INERT
    if not environment.variants:
        needs = "[variants.NAME], because the file has no endpoint without a variant"
        alarms_of_endpoints = (key for key in Alarms.model_fields if key not in _OF_BATCHES)
        for key in (*_OF_ENDPOINTS, *(f"alarms.{name}" for name in alarms_of_endpoints)):
            yield key, needs, False, _INERT
        return
    for strategy, key in (*SHARE.items(), ("rolling", "rollback_batch_percent")):
        is_chosen = environment.rollout is None or environment.rollout.strategy == strategy
        yield f"rollout.{key}", f'rollout.strategy = "{strategy}"', is_chosen, _INERT
    # A type that is not known, which another rule reports, may have a GPU.
    instances = candidate.instances.values()
    unknown = len(instances) < len(candidate.instance_keys)
    gpus = unknown or any(instance.gpus for _, instance in instances)
    metrics = {key: metric for alarms in WATCHED.values() for _, metric, _, key in alarms.values()}
    for key, metric in {**metrics, "no_traffic_minutes": "Invocations"}.items():
        needs = f"an endpoint that publishes {metric}, which this kind does not"
        is_published = kind.has_metric(metric)
        yield f"alarms.{key}", needs, is_published, _INERT
        if metric.startswith("GPU") and is_published:
            yield f"alarms.{key}", "an instance type with a GPU", gpus, _INERT
    for key in ("oldest_request_minutes", "async_failures_per_minute"):
        yield f"alarms.{key}", "[asynchronous]", kind.queued, _INERT
    scales = any(
        variant.is_scaled and variant.capacity[1] > variant.capacity[0]
        for variant in environment.serving_variants.values()
    )
    maximum = "[variants.NAME.scaling], and max_instances above min_instances"
    yield "alarms.at_max_minutes", maximum, scales, _INERT
    yield from _list_scaling_partners(candidate)
    for placement in candidate.placements:
        settings, multi_model = placement.settings, placement.served.multi_model
        kind_of_worker = find_worker_class(settings, placement.tensorflow, multi_model=multi_model)
        count = placement.workers * (settings.gunicorn_threads or 1)
        # The only worker waits for each response before the next request.
        if kind_of_worker in ("sync", "gthread") and count == 1:
            needs = "several workers or threads, or gunicorn_worker_class = gevent"
            harm = "makes each request wait for its own batch: one worker sends one at a time"
            yield placement.build_key("container.batching"), needs, False, harm


def _list_scaling_partners(candidate: Candidate) -> Iterator[_Row]:
    for name, variant in candidate.environment.variants_by_table.items():
        key, scaling = f"variants.{name}.scaling", variant.scaling
        if scaling is None:
            continue
        steps = (*TARGETS, "steps")
        for field, targets in (
            ("safety_factor", TARGETS[:3]),
            ("scale_out_cooldown_seconds", steps),
            ("scale_in_cooldown_seconds", steps),
        ):
            needs = f"{', '.join(targets[:-1])} or {targets[-1]}"
            has_target = any(getattr(scaling, target) for target in targets)
            yield f"{key}.{field}", needs, has_target, _INERT
        if scaling.hold:
            needs = "production = false, an incident, or the first of two deploys"
            harm = "is true, so that nothing scales in production"
            yield f"{key}.hold", needs, not candidate.needs_redundancy, harm


class KeyWithoutPartner(Rule, severity=Severity.WARNING):
    """Some keys have an effect only with another key; without it they are silently ignored.

    What a base file sets for several environments is not reported in those that do not need it.
    Source: infra/parameters (which key reads which), infra/catalog/metrics.json (which endpoints publish
    what)
    """

    remedy = "remove it, or set what it needs"

    def find_problems(self) -> Findings:
        for key, needs, is_there, effect in _list_partners(self.candidate):
            path = tuple(key.split("."))
            own = self.loaded.source.origins.get(path) == self.loaded.file
            if own and not is_there:
                given: Any = self.candidate.find_value(key)
                problem = f"{path[-1]} {effect}"
                if isinstance(given, int | float) and given is not True:
                    problem = f"{path[-1]} {given:g} {effect}"
                else:
                    given = None
                yield self.build_finding(key, problem, given=given, allowed=f"only with {needs}")


def _list_upper_limits(environment: Environment) -> Iterator[_Limit]:
    """Yield (key, its value, the limit's name, the limit, the effect of exceeding it)."""
    alarms, traffic = environment.alarms, environment.traffic
    first = "the higher percentile's alarm always fires first"
    for lower, higher in itertools.combinations(PERCENTILE_KEYS, 2):
        yield f"alarms.{lower}", getattr(alarms, lower), higher, getattr(alarms, higher), first
    quietest = "the quietest hour has more requests than the busiest minute"
    yield "traffic.quiet_rps", traffic.quiet_rps, "peak_rps", traffic.peak_rps, quietest
    if len(environment.variants_by_table) == 1:
        (only,) = environment.variants_by_table.values()
        if only.sleep_after_minutes is not None:
            awake = _REQUESTS_AWAKE / (60 * only.sleep_after_minutes)
            within = f"{_REQUESTS_AWAKE} requests in sleep_after_minutes,"
            never = "the endpoint hardly ever sleeps"
            yield "traffic.quiet_rps", traffic.quiet_rps, within, awake, never
    for name, variant in environment.variants_by_table.items():
        key, scaling, batching = f"variants.{name}", variant.scaling, variant.container.batching
        if batching is not None and not environment.kind.queued:
            answer_ms = MS_PER_SECOND * int(find_documented_limit("answer_seconds"))
            most = MICROS_PER_MS * min(traffic.caller_timeout_ms or answer_ms, answer_ms)
            field, late = "container.batching.timeout_micros", "a lone request waits too long"
            waits = "the microseconds that a caller waits,"
            yield f"{key}.{field}", batching.timeout_micros, waits, most, late
        if scaling is None:
            continue
        for bound, seconds, hours, effect in _COOLDOWNS:
            value = getattr(scaling, bound)
            yield f"{key}.scaling.{bound}", value, f"{hours},", seconds, effect
        others = scaling.max_concurrency_per_instance or scaling.steps or scaling.schedule
        if traffic.peak_rps and variant.capacity[1] > variant.capacity[0] and not others:
            most = 2 * traffic.peak_rps / scaling.safety_factor
            peak = "twice peak_rps / safety_factor,"
            never, rate = "no instance is ever added", scaling.max_rps_per_instance
            yield f"{key}.scaling.max_rps_per_instance", rate, peak, most, never
        # A range stays until another action sets one: nothing is put back. Source: the guide's
        # scheduled-scaling-policy-overview (2026-11-22)
        for place, (bound, own) in enumerate(_BOUNDS):
            stated = [getattr(action, bound) for action in scaling.schedule]
            highest = max((each for each in stated if each is not None), default=None)
            gone = "the first action changes it for good"
            value = None if variant.serverless else variant.capacity[place]
            if variant.component:
                own = own.replace("instances", "copies")
            yield f"{key}.{own}", value, f"every {bound} of the schedule,", highest, gone


# Requests come at random moments: of five expected, none comes once in 150 intervals.
_REQUESTS_AWAKE = 5
# What a load of a day, which rises and falls within hours, leaves of a cooldown.
_COOLDOWNS = (
    ("scale_out_cooldown_seconds", 3_600, "an hour", "a second increase in load comes too soon"),
    ("scale_in_cooldown_seconds", 21_600, "six hours", "you pay for a peak's instances until then"),
)
_BOUNDS = (("at_least", "min_instances"), ("at_most", "max_instances"))


class KeysCrossed(Rule, severity=Severity.WARNING):
    """A value exceeds that of another key, or a limit that follows from it: one of the two is wrong.

    A higher percentile is never below a lower one, and a batch must not wait longer than its caller.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html,
    https://docs.aws.amazon.com/autoscaling/application/userguide/scheduled-scaling-policy-overview.html,
    https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md
    """

    remedy = "correct one of them"

    def find_problems(self) -> Findings:
        for key, value, name, limit, why in _list_upper_limits(self.environment):
            if value is not None and limit is not None and value > limit:
                shown = f"{round(limit, 2):,g}" if limit < 100_000 else f"{limit:,.0f}"
                stated = f"{value:,}" if isinstance(value, int) else f"{value:g}"
                problem = f"{key.rpartition('.')[2]} {stated} is above {name} {shown}: {why}"
                yield self.build_finding(key, problem, given=value, allowed=f"at most {shown}")


class PathMissing(Rule, severity=Severity.WARNING):
    """A missing path is noticed only by the command or the person that needs it."""

    example = 'alarms.runbook = "docs/nowhere.md"'
    problem = "there is no file or folder {path}"
    remedy = "correct the path, or write the file"

    def find_problems(self) -> Findings:
        environment, day = self.environment, self.environment.traffic.day
        runbook, captured = environment.alarms.runbook, environment.replay.captured
        paths = {}
        stated = ("alarms", "runbook") in self.loaded.source.origins
        if stated and not runbook.startswith(("https://", "http://")):
            paths["alarms.runbook"] = runbook
        if captured is not None and not captured.startswith("s3://"):
            paths["replay.captured"] = captured
        # With a scaling table scaling-behind-traffic reads the day, and reports what is wrong with it.
        if day is not None and not any(
            one.scaling for one in environment.variants_by_table.values()
        ):
            paths["traffic.day"] = str(day)
        for key, path in paths.items():
            if not (self.loaded.root / path).exists():
                remedy = suggest_path(path, self.loaded.root) or self.remedy
                yield self.build_finding(key, given=path, remedy=remedy, path=path)
