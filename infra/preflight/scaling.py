"""How fast instances come and go, and whether there are enough of them."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.policy.scaling import cooldowns
from infra.policy.sizing import instances_for
from infra.preflight.placement import Placement
from infra.preflight.rule import Rule, VariantRule


class CapacityTraffic(Rule):
    """At the busiest minute scaling stops at max_instances, whatever the target says.

    Source: instances = traffic / (requests per second of one x safety factor),
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html
    """

    id = "capacity-traffic"
    acknowledgeable = True
    example = """\
traffic.peak_rps = 1000
variants.primary.max_instances = 4
variants.primary.scaling.max_rps_per_instance = 100"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        peak = environment.traffic.peak_rps
        weights = sum(one.weight for one in environment.production_variants.values())
        for name, variant in environment.variants.items():
            scaling = variant.scaling
            rate = scaling.max_rps_per_instance if scaling else None
            if scaling is None or rate is None or scaling.hold or not weights:
                continue
            key = f"variants.{name}.max_instances"
            if peak is None:
                yield self.not_checked(loaded, key, "traffic.peak_rps")
                continue
            rps = peak * variant.weight / weights
            needed = instances_for(
                rps,
                max_rps_per_instance=rate,
                safety_factor=scaling.safety_factor,
            )
            if needed > variant.most_instances:
                yield self.finding(
                    loaded,
                    key,
                    variant.most_instances,
                    f"max_instances {variant.most_instances} does not carry {rps:g} requests/s at "
                    f"{rate:g} x {scaling.safety_factor:g} each",
                    allowed=f"{needed} or more",
                    remedy="raise it, or take less traffic",
                    reads=("traffic.peak_rps", f"variants.{name}.scaling"),
                )


class ScalingCooldownShort(VariantRule):
    """Instances that have not started yet do not lower the load: more are added for nothing.

    Source: https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
    (cooldown); docs/decisions/0011 (how long a start takes)
    """

    id = "scaling-cooldown-short"
    severity = Severity.WARNING
    acknowledgeable = True
    example = """\
variants.primary.scaling.max_rps_per_instance = 100
variants.primary.scaling.scale_out_cooldown_seconds = 60"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        scaling = placement.variant.scaling
        given = scaling.scale_out_cooldown_seconds if scaling else None
        # Left out, it is derived from the start; and a serverless container starts in its own way.
        if given is None or placement.variant.serverless is not None:
            return
        key = placement.key("scaling.scale_out_cooldown_seconds")
        start = placement.start_seconds
        if start is None:
            yield from self.size_unknown(loaded, placement)
        elif given < start:
            yield self.finding(
                loaded,
                key,
                given,
                f"scale_out_cooldown_seconds {given}: a new instance "
                f"answers after about {start:.0f}",
                allowed=f"{int(start) + 1} or more",
                remedy="raise it",
                reads=(f"models.{placement.variant.model}", placement.key("container")),
            )


class ScalingInFaster(VariantRule):
    """Scaling in faster than out, the count swings: every swing costs requests.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-prerequisites.html
    (cooldown period)
    """

    id = "scaling-in-faster"
    severity = Severity.WARNING
    acknowledgeable = True
    example = """\
variants.primary.scaling.max_rps_per_instance = 100
variants.primary.scaling.scale_in_cooldown_seconds = 60"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        scaling = placement.variant.scaling
        back = scaling.scale_in_cooldown_seconds if scaling else None
        if scaling is None or back is None:
            return
        serverless = placement.variant.serverless is not None
        out = cooldowns(
            out_seconds=scaling.scale_out_cooldown_seconds,
            in_seconds=back,
            start_seconds=None if serverless else placement.start_seconds,
        ).out_seconds
        if back < out:
            yield self.finding(
                loaded,
                placement.key("scaling.scale_in_cooldown_seconds"),
                back,
                f"scale_in_cooldown_seconds {back} is shorter than scale_out_cooldown_seconds {out}",
                allowed=f"{out} or more",
                remedy="raise it",
                reads=(placement.key("scaling.scale_out_cooldown_seconds"),),
            )
