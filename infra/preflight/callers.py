"""What callers send and wait for, against what SageMaker takes and the alarms watch."""

from collections.abc import Iterator

from infra.catalog.limits import documented, most
from infra.parameters.environment import Environment, Kind
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule


class RequestTooLarge(Rule):
    """InvokeEndpoint refuses a larger body before the container sees it.

    Source: infra/catalog/limits.json, sagemaker-runtime BodyBlob; of serverless and asynchronous
    endpoints infra/catalog/documented_limits.json
    """

    id = "request-too-large"
    example = "traffic.request_bytes = 6291457"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        given = environment.traffic.request_bytes
        yield from _size(self, loaded, "request_bytes", given, _most(environment.kind))


class AnswerTooLarge(Rule):
    """A larger answer reaches nobody.

    Source: infra/catalog/documented_limits.json (answer_bytes)
    """

    id = "answer-too-large"
    example = "traffic.answer_bytes = 6291457"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        given = environment.traffic.answer_bytes
        real_time = environment.kind == "real_time"
        allowed = int(documented("answer_bytes")) if real_time else _most(environment.kind)
        yield from _size(self, loaded, "answer_bytes", given, allowed)


def _most(kind: Kind) -> int:
    """Bytes of a request; a serverless endpoint carries less, a queue only its address."""
    if kind == "real_time":
        return most("BodyBlob", service="sagemaker-runtime")
    return int(documented(f"{kind}_bytes"))


def _size(
    rule: Rule, loaded: Loaded, name: str, given: int | None, allowed: int
) -> Iterator[Finding]:
    key = f"traffic.{name}"
    if given is None:
        yield rule.not_checked(loaded, key, key)
    elif given > allowed:
        yield rule.finding(
            loaded,
            key,
            given,
            f"{name} {given:,} is more than an endpoint of this kind carries",
            allowed=f"at most {allowed:,}",
            remedy="send fewer rows at once, or bytes instead of JSON",
        )


class AlarmAboveCaller(Rule):
    """Above the caller's own timeout the alarm is silent while every request is given up.

    Source: https://sre.google/sre-book/monitoring-distributed-systems/
    """

    id = "alarm-above-caller"
    severity = Severity.WARNING
    acknowledgeable = True
    example = """\
alarms.p99_latency_ms = 2000
traffic.caller_timeout_ms = 1000"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        alarm, caller = environment.alarms.p99_latency_ms, environment.traffic.caller_timeout_ms
        if alarm is None:
            return
        if caller is None:
            yield self.not_checked(loaded, "alarms.p99_latency_ms", "traffic.caller_timeout_ms")
        elif alarm >= caller:
            yield self.finding(
                loaded,
                "alarms.p99_latency_ms",
                alarm,
                f"p99_latency_ms {alarm:g}: callers give up after {caller:g}",
                allowed=f"less than {caller:g}",
                remedy="lower it to your objective",
                reads=("traffic.caller_timeout_ms",),
            )
