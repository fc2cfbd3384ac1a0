"""Rules about instance types: they must exist in the region and run the image."""

from infra.catalog.instances import Instance, instances, regions, regions_of, without_endpoints
from infra.catalog.instances import offered as types_offered
from infra.catalog.limits import table
from infra.parameters.finding import nearest
from infra.preflight.rule import Findings, InstanceRule, Rule


class InstanceUnknown(Rule):
    """SageMaker refuses an instance type that it does not host models on, after the stack has begun.

    Source: infra/catalog/instances.json
    """

    example = 'variants.primary.instance_type = "ml.c5.4xlrge"'

    def look(self) -> Findings:
        for key, (_, given) in self.candidate.instance_keys.items():
            if given in instances():
                continue
            close = nearest(given, instances())
            excluded: dict[str, str] = table("instances")["excluded"]
            family = given.removeprefix("ml.")
            reasons = [why for prefix, why in excluded.items() if family.startswith(prefix)]
            reason = f"not usable here: {reasons[0]}" if reasons else "unknown"
            yield self.finding(
                key,
                f"{given!r} is {reason}",
                allowed=f"the {len(instances())} types that Servable knows, such as ml.c5.xlarge",
                remedy=f"did you mean {close}?" if close and not reasons else "choose another",
            )


class InstanceRetired(InstanceRule):
    """Retired types are still in the API's list but in no region's price list: they may not start.

    Source: infra/catalog/retired_instances.json
    """

    acknowledgeable = True
    example = """\
models.ranker.tensorflow = "2.20"
variants.primary.instance_type = "ml.p3.2xlarge\""""

    def look(self, key: str, name: str, instance: Instance) -> Findings:
        if instance.successor:
            yield self.finding(
                key,
                f"{instance.name} is retired: no region lists a price for it",
                allowed=f"{instance.successor}, its successor",
                remedy=f'change it, or add {self.id} = "the reason" to [acknowledge]',
            )


class InstanceNotInRegion(InstanceRule):
    """If the region does not have the instance type, the endpoint waits for capacity and fails.

    Source: infra/catalog/availability.json, from AWS's price list
    """

    acknowledgeable = True
    example = """\
region = "eu-west-3"
variants.primary.instance_type = "ml.g5.xlarge\""""
    remedy = "choose one of those, or another region"
    reads = ("region",)

    def look(self, key: str, name: str, instance: Instance) -> Findings:
        region = self.environment.region
        if instance.successor:
            return  # InstanceRetired reports it
        if region not in regions():
            question = "whether the Region offers the instance type"
            yield self.not_checked(key, f"a region of infra/catalog: {region}", question)
        elif region not in regions_of(instance.name):
            size = instance.name.split(".")[-1]
            offered = filter(None, map(instances().get, types_offered(region)))
            usable = [
                other.name
                for other in offered
                if other.name.endswith(f".{size}")
                and other.device == instance.device
                and other.architecture == instance.architecture
            ]
            elsewhere = ", ".join(regions_of(instance.name)) or "no region"
            yield self.finding(
                key,
                f"{region} does not have {instance.name}",
                allowed=", ".join(usable) or f"{elsewhere} has it",
            )


class RegionWithoutEndpoints(Rule):
    """CloudFormation creates an endpoint only where it has the resource type for it.

    Source: infra/catalog/availability.json, from CloudFormation's own schemas of each region
    """

    # AWS's price list has hosting in these regions too, so that an endpoint made otherwise may
    # exist there.

    acknowledgeable = True
    example = 'region = "me-central-1"'
    key = "region"
    problem = "CloudFormation has no AWS::SageMaker::Endpoint in {environment.region}"
    allowed = "other regions, such as eu-west-1"
    remedy = "choose another region, or try one endpoint there and acknowledge this finding"

    def look(self) -> Findings:
        if self.environment.region in without_endpoints():
            yield self.finding(environment=self.environment)


class InstanceArchitecture(InstanceRule):
    """The TensorFlow Serving images are built for x86-64.

    Source: infra/catalog/images.json; the last arm64 image, 2.19, is out of patch
    """

    example = 'variants.primary.instance_type = "ml.c6g.xlarge"'
    allowed = "x86_64 types, such as ml.c5, ml.c6i, ml.c7i, ml.m5, ml.g4dn, ml.g5, ml.g6"
    remedy = "choose one of those"

    def look(self, key: str, name: str, instance: Instance) -> Findings:
        model = self.environment.models.get(self.environment.variants[name].model)
        own = model is not None and model.image is not None
        if instance.architecture != "x86_64" and not own:
            yield self.finding(
                key,
                f"{instance.name} is {instance.architecture}; the image is built for x86_64",
            )
