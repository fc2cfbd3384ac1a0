"""Rules about instance pools: types in order of preference, of which an instance takes the first free one."""

from collections.abc import Sequence

from infra.catalog.instances import instances
from infra.parameters.finding import Severity
from infra.parameters.placement import placements_of
from infra.parameters.variant import InstancePool, Variant
from infra.policy.hosting import driver_for_all
from infra.preflight.rule import Findings, VariantTableRule

_PAIR = 'variants.primary.instance_pools = [{{ instance_type = "{}" }}, {{ instance_type = "{}" }}]'


class PoolsRule(VariantTableRule):
    """A rule about variants with instance_pools."""

    table = "instance_pools"


class InstancePoolsRepeated(PoolsRule):
    """A type that stands twice adds no capacity: if the first is not to be had, neither is the second.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html (2026-11-22)
    """

    example = _PAIR.format("ml.c5.xlarge", "ml.c5.xlarge")
    allowed = "each instance type once"
    remedy = "take the repetition out, or name another type"

    def look(self, name: str, variant: Variant, pools: Sequence[InstancePool]) -> Findings:
        types = variant.instance_types
        twice = [kind for kind in dict.fromkeys(types) if types.count(kind) > 1]
        if twice:
            yield self.finding(
                f"variants.{name}.instance_pools",
                f"{', '.join(twice)} stands more than once",
                given=None,
            )


class InstancePoolsDriver(PoolsRule):
    """A variant has one inference AMI: its driver must be for every GPU type, and CPU types take none.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (InferenceAmiVersion, InstancePools); infra/catalog/inference_amis.json
    """

    example = _PAIR.format("ml.g5.xlarge", "ml.c5.xlarge")
    allowed = "only CPU types, or GPU types that one AMI is for, such as ml.g5 and ml.g6"
    remedy = "put the others into a variant of their own"

    def look(self, name: str, variant: Variant, pools: Sequence[InstancePool]) -> Findings:
        if variant.inference_ami is not None:
            return  # ami-family, ami-cuda and ami-without-gpu look at each type
        placed = placements_of(self.environment, name)
        try:
            driver_for_all([(each.tensorflow, each.instance) for each in placed])
        except KeyError:
            yield self.finding(
                f"variants.{name}.instance_pools",
                f"no inference AMI is for all of {', '.join(variant.instance_types)}",
                given=None,
                reads=(f"models.{variant.model}",),
            )


class InstancePoolsUneven(PoolsRule):
    """Predefined scaling metrics are means over all instances: a smaller type is full before the mean is.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html
    (Use weighted custom metrics for mixed fleets, 2026-11-22)
    """

    severity = Severity.WARNING
    acknowledgeable = True
    example = f"""\
{_PAIR.format("ml.c5.xlarge", "ml.c5.4xlarge")}
variants.primary.scaling.max_rps_per_instance = 100"""

    def look(self, name: str, variant: Variant, pools: Sequence[InstancePool]) -> Findings:
        sizes, shown = set(), []
        for instance in filter(None, map(instances().get, variant.instance_types)):
            gpus = f", {instance.gpus} GPUs" if instance.gpus else ""
            sizes.add((instance.vcpus, instance.gpus))
            shown.append(f"{instance.name} ({instance.vcpus} vCPUs{gpus})")
        if len(sizes) > 1 and variant.scales:
            yield self.finding(
                f"variants.{name}.instance_pools",
                f"scaling takes instances of different sizes for equal: {', '.join(shown)}",
                given=None,
                allowed="types of one size",
                remedy="choose such, or scale by the smallest type's measured rate and accept this; "
                "a policy on metric math that weighs the types is not built here: add it in CDK",
                reads=(f"variants.{name}.scaling",),
            )
