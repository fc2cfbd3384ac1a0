"""Rules about the alarms' thresholds and subscribers."""

from infra.parameters.finding import Severity
from infra.preflight.rule import Findings, Rule


class AlarmAboveCaller(Rule):
    """With a threshold above the callers' timeout the alarm stays OK while every caller times out.

    Source: https://sre.google/sre-book/monitoring-distributed-systems/
    """

    severity = Severity.WARNING
    example = """\
alarms.p99_latency_ms = 2000
traffic.caller_timeout_ms = 1000"""
    key = "alarms.p99_latency_ms"
    problem = "p99_latency_ms {alarm:g} is not below the callers' timeout of {caller:g} ms"
    allowed = "less than {caller:g}"
    remedy = "lower it to your latency objective"
    reads = ("traffic.caller_timeout_ms",)

    def look(self) -> Findings:
        alarm, caller = (
            self.environment.alarms.p99_latency_ms,
            self.environment.traffic.caller_timeout_ms,
        )
        if alarm is None:
            return
        if caller is None:
            yield self.not_checked("alarms.p99_latency_ms", "traffic.caller_timeout_ms")
        elif alarm >= caller:
            yield self.finding(alarm=alarm, caller=caller)


class AlarmsAddressTwice(Rule):
    """A topic has one subscription for each address; a second one would make the synthesis fail."""

    example = 'alarms.notify = ["a@example.com", "a@example.com"]'
    allowed = "each address once"
    remedy = "take the others out"

    def look(self) -> Findings:
        lists = {"notify": self.environment.alarms.notify, "page": self.environment.alarms.page}
        for key, addresses in lists.items():
            for address in sorted(each for each in set(addresses) if addresses.count(each) > 1):
                yield self.finding(
                    f"alarms.{key}", f"{address} is listed more than once", given=address
                )
