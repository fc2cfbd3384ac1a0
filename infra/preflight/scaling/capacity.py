"""Rules about the number of instances, what changes it, and whether it follows the day in [traffic]."""

import math
from dataclasses import replace

from infra.catalog.instances import Instance
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.variant import Variant
from infra.policy.sizing import count_instances
from infra.preflight.rule import EachVariantRule, Findings, InstanceRule, Rule, VariantRule


class CapacityMinAboveMax(EachVariantRule):
    """Application Auto Scaling rejects the target, after the endpoint has been created.

    Source: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
    """

    key = "variants.{name}.min_instances"
    problem = "min_instances {variant.min_instances} is above max_instances {variant.max_instances}"
    remedy = (
        "set max_instances = {variant.min_instances}, or min_instances = {variant.instance_limit}"
    )

    def find_problems(self, name: str, variant: Variant) -> Findings:
        if variant.min_instances > variant.instance_limit:
            yield self.build_finding()


class CapacityNothingScales(EachVariantRule):
    """Without a [scaling] table the instances stay at the minimum, or at one that a request starts."""

    key = "variants.{name}.max_instances"
    problem = "max_instances {variant.max_instances} is never reached, because nothing scales"
    remedy = "add a scaling table with max_rps_per_instance, or remove max_instances"
    reads = ("variants.{name}.scaling",)

    def find_problems(self, name: str, variant: Variant) -> Findings:
        fixed = variant.scaling is None and not variant.components
        least = 1 if variant.can_sleep else variant.min_instances
        if fixed and variant.instance_limit > least:
            yield self.build_finding(least=least)


class CapacityNoRange(EachVariantRule, severity=Severity.WARNING):
    """Without max_instances, min_instances is the maximum, too."""

    key = "variants.{name}.scaling"
    problem = "scaling changes nothing: without max_instances, {variant.min_instances} is the maximum, too"
    remedy = "set max_instances above min_instances"
    reads = ("variants.{name}.max_instances",)

    def find_problems(self, name: str, variant: Variant) -> Findings:
        least, most = variant.planned_capacity
        of_instances = not (variant.components or variant.has_copies or variant.serverless)
        is_fixed = of_instances and variant.max_instances is None and least == most
        if is_fixed and variant.scaling is not None and not variant.scaling.hold:
            yield self.build_finding()


class CapacityInitialInstances(EachVariantRule):
    """Without scaling min_instances instances run, and scaling removes those above max_instances.

    Source: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
    (capacity outside the bounds is moved inside at once, read 2026-11-22)
    """

    example = "variants.primary.initial_instances = 2"
    key = "variants.{name}.initial_instances"

    def find_problems(self, name: str, variant: Variant) -> Findings:
        initial, most = variant.initial_instances, variant.instance_limit
        if initial is None:
            return
        if variant.serverless is not None or (variant.scaling is None and not variant.has_copies):
            problem = (
                f"initial_instances {initial} has no effect, because the variant does not scale"
            )
            remedy = "remove it; min_instances sets the number of instances"
            reads = (f"variants.{name}.scaling",)
            yield self.build_finding(problem=problem, remedy=remedy, reads=reads)
        elif initial > most:
            problem = f"initial_instances {initial} is above max_instances {most}"
            remedy, reads = "lower it or raise max_instances", (f"variants.{name}.max_instances",)
            yield self.build_finding(problem=problem, remedy=remedy, reads=reads)


class CapacityMixedScaling(Rule, severity=Severity.WARNING):
    """An update keeps the live number of instances of every variant, or sets all of them from the file.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html
    (RetainAllVariantProperties)
    """

    key = "variants.{name}.min_instances"
    problem = (
        "{name} with min_instances {variant.min_instances} does not scale but {scaled} does: an update keeps "
        "the live number of instances of both, so a change of min_instances here has no effect"
    )
    remedy = "add [variants.{name}.scaling] with max_instances = min_instances"
    reads = ("variants.{name}.scaling",)

    def find_problems(self) -> Findings:
        variants = self.environment.variants
        scaled = [name for name, variant in variants.items() if variant.scaling is not None]
        if not scaled or not self.environment.kind.has_instances:
            return  # a serverless endpoint has no number of instances
        for name, variant in variants.items():
            if variant.scaling is None:
                yield self.build_finding(name=name, variant=variant, scaled=scaled[0])


class CapacityZero(EachVariantRule):
    """Zero instances are possible only if requests wait in a queue and scaling adds instances.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html (0
    instances); a real-time endpoint scales to zero only with inference components,
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
    """

    example = "variants.primary.min_instances = 0"
    key = "variants.{name}.min_instances"
    problem = "with min_instances 0, no instance can respond"
    allowed = "1 or more; 0 with [asynchronous] and [variants.{name}.scaling]"
    remedy = "raise it"
    reads = ("asynchronous", "variants.{name}.scaling")

    def find_problems(self, name: str, variant: Variant) -> Findings:
        wakes = self.environment.kind.queued and variant.is_scaled
        if variant.min_instances == 0 and not (wakes or variant.has_copies):
            yield self.build_finding(name=name)


class CapacityTraffic(EachVariantRule, acknowledgeable=True):
    """In the busiest minute scaling stops at max_instances, whatever its target is.

    Source: instances = traffic / (requests per second of one x safety factor),
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html
    """

    key = "variants.{name}.max_instances"
    problem = (
        "max_instances {variant.instance_limit} cannot serve {rps:g} requests/s at {rate:g} x {safety:g} "
        "each"
    )
    allowed = "{needed} or more"
    remedy = "raise it, or lower traffic.peak_rps"
    reads = ("traffic.peak_rps", "variants.{name}.scaling")

    def find_problems(self, name: str, variant: Variant) -> Findings:
        peak, scaling = self.environment.traffic.peak_rps, variant.scaling
        share, most = self.environment.compute_share(name), variant.instance_limit
        rate = scaling.max_rps_per_instance if scaling else None
        if scaling is None or rate is None or scaling.hold or share is None:
            return
        if peak is None:
            key = f"variants.{name}.max_instances"
            question = "whether max_instances is enough for the peak"
            yield self.build_unchecked(key, "traffic.peak_rps", question)
            return
        rps, safety = peak * share, scaling.safety_factor
        needed = count_instances(rps, max_rps_per_instance=rate, safety_factor=safety)
        if needed > most:
            found = self.build_finding(given=most, rps=rps, rate=rate, safety=safety, needed=needed)
            if variant.max_instances is None:
                missing = "max_instances is missing, and defaults to min_instances: "
                add = f"add max_instances = {needed} to [variants.{name}]"
                remedy = f"{add}, or lower traffic.peak_rps"
                found = replace(found, problem=missing + found.problem, remedy=remedy)
            yield found


class CapacityBurstableScaled(InstanceRule):
    """Application Auto Scaling rejects burstable instance types.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling.html
    """

    problem = "{instance.name} is burstable and cannot be scaled"
    remedy = "choose a type that is not burstable, such as ml.c5.large, or remove [variants.{name}.scaling]"

    def find_problems(self, key: str, name: str, instance: Instance) -> Findings:
        if instance.burstable and self.environment.variants[name].is_scaled:
            yield self.build_finding(key)


class CapacitySingle(EachVariantRule, severity=Severity.WARNING):
    """One instance is in one availability zone: while it is replaced no request is answered.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/how-it-works-hosting.html (two or more
    instances are launched in several Availability Zones)
    """

    key = "variants.{name}.min_instances"
    problem = "with min_instances 1, production requests fail while the instance is replaced"
    remedy = "set 2, or set production = false if nobody depends on it"
    reads = ("production",)

    def find_problems(self, name: str, variant: Variant) -> Findings:
        answers = variant.weight and not variant.shadow
        if self.candidate.needs_redundancy and variant.min_instances == 1 and answers:
            yield self.build_finding()


class ScalingBehindTraffic(VariantRule, severity=Severity.WARNING):
    """New instances respond minutes after traffic arrives; until then all instances are overloaded.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html (the maximum of an
    instance), docs/decisions/0052-a-day-rehearsed.md
    """

    def find_problems(self, placement: Placement) -> Findings:
        traffic, scaling = self.environment.traffic, placement.variant.scaling
        if (traffic.profile is None and traffic.day is None) or placement.pool:
            return
        if scaling is None or scaling.hold or not self.environment.kind.has_instances:
            return
        rate = scaling.max_rps_per_instance
        question = "whether autoscaling keeps up with the traffic"
        if traffic.day is None and traffic.peak_rps is None:
            yield self.build_unchecked("traffic.profile", "traffic.peak_rps", question)
        elif rate is None:
            key = f"variants.{placement.name}.scaling"
            yield self.build_unchecked(key, f"{key}.max_rps_per_instance", question)
        else:
            yield from self._rehearse(placement, rate)

    def _rehearse(self, placement: Placement, rate: float) -> Findings:
        # Only here: what they import takes time at each start of a command.
        from infra.parameters import rehearsal_scenario as scenario
        from servable_scaling.rehearsal.day import rehearse
        from servable_scaling.rehearsal.traffic import TrafficError

        try:
            requests = scenario.read_stated_day(self.environment.traffic)
        except TrafficError as wrong:
            remedy = "correct it, or remove traffic.day"
            yield self.build_finding("traffic.day", str(wrong), remedy=remedy)
            return
        scaling = placement.variant.scaling
        assert requests is not None  # find_problems has seen them
        assert scaling is not None
        # Little's law: as many requests as it answers at once, by how many it answers a second.
        ms = 1000 * (scaling.max_concurrency_per_instance or 1.0) / rate
        instance = scenario.MeasuredInstance(rate_rps=rate, p50_ms=ms, p99_ms=ms, source="the file")
        planned = scenario.build_scenario(self.environment, placement, requests, instance)
        acting = [alarm for alarm in planned.alarms if alarm.get("AlarmActions")]
        try:
            day = rehearse(replace(planned, alarms=acting, page=None, p99_ms=None, latencies=False))
        except (ValueError, KeyError):
            return  # rules about schedules, time zones, steps and capacity report it
        broken = [minute for minute, each in enumerate(day.minutes) if each.use > 1]
        if broken:
            worst = max(each.use for each in day.minutes)
            hours, minutes = divmod(broken[0], 60)
            yield self.build_finding(
                f"variants.{placement.name}.scaling",
                f"at {hours:02}:{minutes:02} of the stated day, autoscaling lags behind: for {len(broken):,} "
                f"minutes an instance gets up to {math.ceil(worst * rate):,} requests/s",
                allowed=f"at most max_rps_per_instance, {rate:g}",
                remedy=f"compare minimums and targets: `servable rehearse {self.loaded.name} --compare`",
                reads=("traffic.profile", "traffic.day", "traffic.peak_rps"),
            )
