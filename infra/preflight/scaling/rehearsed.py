"""The rule that rehearses the day that [traffic] states against the scaling policies."""

import math
from dataclasses import replace

from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.preflight.rule import Findings, VariantRule


class ScalingBehindTraffic(VariantRule):
    """New instances answer minutes after traffic has come; until then each gets more than it answers.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html (the maximum of an
    instance), docs/decisions/0052-a-day-rehearsed.md
    """

    # The day of [traffic], profile or day, is rehearsed as `servable rehearse` does it. A minute
    # breaks the objective in which an instance gets more than max_rps_per_instance: latencies play
    # no part.

    severity = Severity.WARNING
    example = """\
traffic.profile = "spike"
traffic.peak_rps = 400
traffic.quiet_rps = 20
variants.primary.max_instances = 8
variants.primary.scaling.max_rps_per_instance = 100"""

    def look(self, placement: Placement) -> Findings:
        traffic, scaling = self.environment.traffic, placement.variant.scaling
        if (traffic.profile is None and traffic.day is None) or placement.pool:
            return
        if scaling is None or scaling.hold or not self.environment.kind.has_instances:
            return
        rate = scaling.max_rps_per_instance
        question = "whether autoscaling keeps up with the traffic"
        if traffic.day is None and traffic.peak_rps is None:
            yield self.not_checked("traffic.profile", "traffic.peak_rps", question)
        elif rate is None:
            key = f"variants.{placement.name}.scaling"
            yield self.not_checked(key, f"{key}.max_rps_per_instance", question)
        else:
            yield from self._rehearsed(placement, rate)

    def _rehearsed(self, placement: Placement, rate: float) -> Findings:
        # Only here: what they import takes time at each start of a command.
        from infra.parameters.rehearsal_scenario import MeasuredInstance, scenario, stated_day
        from servable_scaling.rehearsal.day import rehearse
        from servable_scaling.rehearsal.traffic import TrafficError

        try:
            requests = stated_day(self.environment.traffic)
        except TrafficError as wrong:
            yield self.finding(
                "traffic.day", str(wrong), remedy="correct it, or take traffic.day out"
            )
            return
        scaling = placement.variant.scaling
        assert requests is not None  # look() has seen them
        assert scaling is not None
        # Little's law: as many requests as it answers at once, by how many it answers a second.
        milliseconds = 1000 * (scaling.max_concurrency_per_instance or 1.0) / rate
        instance = MeasuredInstance(
            rate_rps=rate, p50_ms=milliseconds, p99_ms=milliseconds, source="the file"
        )
        planned = scenario(self.environment, placement, requests, instance)
        acting = [alarm for alarm in planned.alarms if alarm.get("AlarmActions")]
        try:
            day = rehearse(replace(planned, alarms=acting, page=None, p99_ms=None, latencies=False))
        except (ValueError, KeyError):
            return  # rules about schedules, time zones, steps and capacity report it
        broken = [minute for minute, each in enumerate(day.minutes) if each.use > 1]
        if broken:
            worst = max(each.use for each in day.minutes)
            hours, minutes = divmod(broken[0], 60)
            yield self.finding(
                f"variants.{placement.name}.scaling",
                f"at {hours:02}:{minutes:02} of the stated day scaling is behind: for {len(broken):,} "
                f"minutes an instance gets up to {math.ceil(worst * rate):,} requests/s",
                allowed=f"at most max_rps_per_instance, {rate:g}",
                remedy=f"compare minimums and targets: `servable rehearse {self.loaded.name} --compare`",
                reads=("traffic.profile", "traffic.day", "traffic.peak_rps"),
            )
