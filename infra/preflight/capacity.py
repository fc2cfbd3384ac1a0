"""How many instances, and what changes their number."""

from collections.abc import Iterator

from infra.catalog.instances import instances
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule


class CapacityMinAboveMax(Rule):
    """Application Auto Scaling refuses the target, after the endpoint has been created.

    Source: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html
    """

    id = "capacity-min-above-max"
    example = """\
variants.primary.min_instances = 3
variants.primary.max_instances = 2"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, variant in environment.variants.items():
            if variant.min_instances > variant.most_instances:
                yield self.finding(
                    loaded,
                    f"variants.{name}.min_instances",
                    variant.min_instances,
                    f"min_instances {variant.min_instances} is above max_instances "
                    f"{variant.max_instances}",
                    allowed=f"1 to {variant.max_instances}",
                    remedy="lower min_instances or raise max_instances",
                )


class CapacityNothingScales(Rule):
    """A range of instances without a target: the number would stay at the minimum for ever."""

    id = "capacity-nothing-scales"
    example = "variants.primary.max_instances = 4"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, variant in environment.variants.items():
            if variant.scaling is None and variant.most_instances > variant.min_instances:
                yield self.finding(
                    loaded,
                    f"variants.{name}.max_instances",
                    variant.max_instances,
                    f"max_instances {variant.max_instances} is never reached: nothing scales",
                    allowed=f"{variant.min_instances}, or a table [variants.{name}.scaling]",
                    remedy="add the table with max_rps_per_instance, or take max_instances out",
                    reads=(f"variants.{name}.scaling",),
                )


class CapacityMixedScaling(Rule):
    """An update keeps every variant's live count, or takes every variant's from the file.

    With scaling it must keep them; a variant beside it that does not scale then keeps its
    count too, whatever the file says.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html
    (RetainAllVariantProperties)
    """

    id = "capacity-mixed-scaling"
    severity = Severity.WARNING
    acknowledgeable = True
    example = """\
variants.primary.scaling.max_rps_per_instance = 100
variants.second = { model = "ranker", instance_type = "ml.c5.xlarge" }"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        if environment.kind == "serverless":
            return  # it has no number of instances
        scaled = [name for name, one in environment.variants.items() if one.scaling is not None]
        for name, variant in environment.variants.items():
            if scaled and variant.scaling is None:
                yield self.finding(
                    loaded,
                    f"variants.{name}.min_instances",
                    variant.min_instances,
                    f"{name} with min_instances {variant.min_instances} does not scale but {scaled[0]} "
                    f"does: an update keeps the live number of instances of both, and a change of "
                    "min_instances here changes nothing",
                    allowed="a [scaling] table for every variant, or for none",
                    remedy=f"add [variants.{name}.scaling] with max_instances = min_instances",
                    reads=(f"variants.{name}.scaling",),
                )


class CapacityBurstableScaled(Rule):
    """Application Auto Scaling refuses burstable instances.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling.html
    """

    id = "capacity-burstable-scaled"
    example = """\
variants.primary.instance_type = "ml.t2.medium"
variants.primary.scaling.max_rps_per_instance = 10"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, variant in environment.variants.items():
            instance = instances().get(variant.instance_type or "")
            if instance and instance.burstable and variant.scales:
                yield self.finding(
                    loaded,
                    f"variants.{name}.instance_type",
                    instance.name,
                    f"{instance.name} is burstable and cannot be scaled",
                    allowed="types that are not burstable, as ml.c5.large",
                    remedy=f"choose one of those, or take [variants.{name}.scaling] out",
                )
