"""How fast instances come and go, and whether there are enough of them."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.policy.sizing import instances_for, start_seconds
from infra.preflight.placement import Placement
from infra.preflight.rule import Rule, VariantRule


class MaximumCarriesTheTraffic(Rule):
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
        weights = sum(one.weight for one in environment.variants.values())
        for name, variant in environment.variants.items():
            if variant.scaling is None or not weights:
                continue
            key = f"variants.{name}.max_instances"
            if peak is None:
                yield self.not_checked(loaded, key, "traffic.peak_rps")
                continue
            rps = peak * variant.weight / weights
            needed = instances_for(
                rps,
                max_rps_per_instance=variant.scaling.max_rps_per_instance,
                safety_factor=variant.scaling.safety_factor,
            )
            if needed > variant.most_instances:
                yield self.finding(
                    loaded,
                    key,
                    variant.most_instances,
                    f"max_instances {variant.most_instances} does not carry {rps:g} requests/s at "
                    f"{variant.scaling.max_rps_per_instance:g} x {variant.scaling.safety_factor:g} each",
                    allowed=f"{needed} or more",
                    remedy="raise it, or take less traffic",
                    reads=("traffic.peak_rps", f"variants.{name}.scaling"),
                )


class CooldownOutlastsTheStart(VariantRule):
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
        if scaling is None:
            return
        key = placement.key("scaling.scale_out_cooldown_seconds")
        start = start_seconds(placement.served, processes=placement.processes)
        if start is None:
            yield from self.size_unknown(loaded, placement)
        elif scaling.scale_out_cooldown_seconds < start:
            yield self.finding(
                loaded,
                key,
                scaling.scale_out_cooldown_seconds,
                f"scale_out_cooldown_seconds {scaling.scale_out_cooldown_seconds}: a new instance "
                f"answers after about {start:.0f}",
                allowed=f"{int(start) + 1} or more",
                remedy="raise it",
                reads=(f"models.{placement.variant.model}", placement.key("container")),
            )


class InstancesLeaveMoreSlowlyThanTheyCome(Rule):
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

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, variant in environment.variants.items():
            scaling = variant.scaling
            if scaling is None:
                continue
            out, back = scaling.scale_out_cooldown_seconds, scaling.scale_in_cooldown_seconds
            if back < out:
                yield self.finding(
                    loaded,
                    f"variants.{name}.scaling.scale_in_cooldown_seconds",
                    back,
                    f"scale_in_cooldown_seconds {back} is shorter than scale_out_cooldown_seconds {out}",
                    allowed=f"{out} or more",
                    remedy="raise it",
                    reads=(f"variants.{name}.scaling.scale_out_cooldown_seconds",),
                )
