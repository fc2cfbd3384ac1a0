"""Rules about scaling policies: their metrics, steps and cooldowns."""

import itertools
from collections import Counter

from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.scaling import Scaling
from infra.parameters.scaling_properties import choose_cooldowns
from infra.parameters.variant import Variant
from infra.policy.hosting import KINDS
from infra.preflight.rule import Findings, VariantRule, VariantTableRule

ANY_KIND = ("schedule",)


class ScalingRule(VariantTableRule):
    """A rule about the scaling table of a variant."""

    table = "scaling"


class ScalingOnNothing(ScalingRule):
    """A scaling table without a target or a step never adds an instance.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling.html
    """

    example = "variants.primary.scaling.safety_factor = 0.7"
    key = "variants.{name}.scaling"
    problem = "the scaling table has no target: the number of instances would never change"

    def find_problems(self, name: str, variant: Variant, scaling: Scaling) -> Findings:
        allowed = (*self.environment.kind.scales_on, *ANY_KIND)
        acts = scaling.hold or variant.sleep_after_minutes is not None
        if not acts and not any(getattr(scaling, key) for key in allowed):
            remedy = f"add {allowed[0]} with its measured value, or remove the table"
            yield self.build_finding(allowed=", ".join(allowed), remedy=remedy)


class ScalingOneWay(ScalingRule, severity=Severity.WARNING):
    """Steps in one direction only add instances that nothing removes, or remove what nothing adds.

    Source: https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
    """

    key = "variants.{name}.scaling.steps"
    problem = "no step {missing} instances"
    remedy = "add the other step, a target, or a schedule"

    def find_problems(self, name: str, variant: Variant, scaling: Scaling) -> Findings:
        others = (*self.environment.kind.scales_on, *ANY_KIND)
        acts = any(getattr(scaling, key) for key in others if key != "steps")
        above = {step.above_rps is not None for step in scaling.steps}
        sleeps = variant.sleep_after_minutes is not None
        if len(above) == 1 and not (acts or scaling.hold or sleeps):
            yield self.build_finding(given=None, missing="removes" if above.pop() else "adds")


class ScalingMetricUnpublished(ScalingRule):
    """Each kind of endpoint publishes other metrics; a policy on an unpublished metric never acts.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html,
    https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-monitoring.html (both
    lists are exhaustive)
    """

    remedy = "use one of these"
    reads = ("asynchronous", "variants.{name}.serverless")

    def find_problems(self, name: str, variant: Variant, scaling: Scaling) -> Findings:
        kind, allowed = self.environment.kind, self.environment.kind.scales_on
        for key in sorted({key for other in KINDS for key in other.scales_on} - set(allowed)):
            given = getattr(scaling, key)
            problem = f"{key}: {kind} endpoints do not publish a metric of requests per instance"
            if not given:
                continue
            if isinstance(given, list):
                given = None
            else:
                missing = f"{kind} endpoints do not publish the metric that it scales on"
                problem = f"{key} {given:g}: {missing}"
            where, known = f"variants.{name}.scaling.{key}", ", ".join((*allowed, *ANY_KIND))
            yield self.build_finding(where, problem, given=given, allowed=known)


class ScalingStep(ScalingRule):
    """A step must add instances above a bound, or remove instances below one.

    Source: https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
    """

    key = "variants.{name}.scaling.steps"

    def find_problems(self, name: str, variant: Variant, scaling: Scaling) -> Findings:
        for step in scaling.steps:
            rates = {"above_rps": step.above_rps, "below_rps": step.below_rps}
            bounds = [f"{word} {rate:g}" for word, rate in rates.items() if rate is not None]
            bound = bounds[0] if len(bounds) == 1 else "neither or both of above_rps and below_rps"
            if len(bounds) != 1 or (step.change > 0) == (step.above_rps is None) or not step.change:
                yield self.build_finding(
                    problem=f"invalid step: change {step.change} with {bound}",
                    given=step.change,
                    allowed="above_rps with a positive change, or below_rps with a negative one",
                    remedy="change it",
                )
        for word in ("above_rps", "below_rps"):
            counts = Counter(getattr(step, word) for step in scaling.steps)
            for given in sorted(rps for rps, count in counts.items() if rps and count > 1):
                problem = f"two steps have {word} {given:g}"
                yield self.build_finding(problem=problem, given=given, remedy="remove one")


class ScalingStepsCross(ScalingRule, severity=Severity.WARNING):
    """Steps answer more load with more instances; where they cross, two of them act against each other.

    Source: https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
    (2026-11-22)
    """

    key = "variants.{name}.scaling.steps"
    remedy = "correct the bounds, or the changes"

    def find_problems(self, name: str, variant: Variant, scaling: Scaling) -> Findings:
        up = sorted((step.above_rps, step.change) for step in scaling.steps if step.above_rps)
        down = sorted((step.below_rps, step.change) for step in scaling.steps if step.below_rps)
        for word, steps in (("above_rps", up), ("below_rps", down)):
            for (rate, change), (further, other) in itertools.pairwise(steps):
                if other < change:
                    problem = f"{word} {rate:g} changes by {change}, but "
                    problem += f"{word} {further:g} by {other}"
                    yield self.build_finding(problem=problem, given=other)
        if up and down and up[0][0] <= down[-1][0]:
            lowest, highest = up[0][0], down[-1][0]
            problem = f"above_rps {lowest:g} adds instances that below_rps {highest:g} removes"
            yield self.build_finding(problem=problem, given=lowest)


class ScalingWithoutProvisioned(ScalingRule):
    """Scaling of a serverless variant changes its provisioned concurrency, which must be set.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-autoscale.html
    """

    key = "variants.{name}.serverless.provisioned_concurrency"
    problem = "[scaling] scales provisioned concurrency, but provisioned_concurrency is not set"
    allowed = "1 to {serverless.max_concurrency}"
    remedy = "set it to the concurrency that is always provisioned, or remove [scaling]"
    reads = ("variants.{name}.scaling",)

    def find_problems(self, name: str, variant: Variant, scaling: Scaling) -> Findings:
        serverless = variant.serverless
        if serverless is not None and serverless.provisioned_concurrency is None:
            yield self.build_finding(serverless=serverless)


class ScalingCooldownShort(VariantRule, severity=Severity.WARNING):
    """Instances that have not started yet do not lower the load: more are added for nothing.

    Source: https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
    (cooldown); docs/decisions/0011 (how long a start takes)
    """

    key = "scaling.scale_out_cooldown_seconds"
    problem = (
        "scale_out_cooldown_seconds {stated} is too short: a new instance responds after about "
        "{start:.0f} s"
    )
    remedy = "raise it"
    reads = ("models.{placement.variant.model}", "container")

    def find_problems(self, placement: Placement) -> Findings:
        scaling, start = placement.variant.scaling, placement.start_seconds
        stated = scaling.scale_out_cooldown_seconds if scaling else None
        # The default is derived from the start time; serverless containers start differently.
        if stated is None or placement.variant.serverless is not None:
            return
        if start is None:
            yield from self.report_unknown_size(placement)
        elif stated < start:
            allowed = f"{int(start) + 1} or more"
            yield self.build_finding(allowed=allowed, stated=stated, start=start)


class ScalingInFaster(VariantRule, severity=Severity.WARNING):
    """If scaling in is faster than scaling out, the number of instances oscillates and requests fail.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-prerequisites.html
    (cooldown period)
    """

    key = "scaling.scale_in_cooldown_seconds"
    problem = "scale_in_cooldown_seconds {back} is shorter than scale_out_cooldown_seconds {out}"
    allowed = "{out} or more"
    remedy = "raise it"
    reads = ("scaling.scale_out_cooldown_seconds",)

    def find_problems(self, placement: Placement) -> Findings:
        scaling = placement.variant.scaling
        if scaling is None or scaling.scale_in_cooldown_seconds is None:
            return
        chosen = choose_cooldowns(scaling, placement.start_seconds)
        if chosen.in_seconds < chosen.out_seconds:
            yield self.build_finding(back=chosen.in_seconds, out=chosen.out_seconds)
