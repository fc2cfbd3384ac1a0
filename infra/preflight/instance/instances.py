"""Rules about instance types: they must exist in the region, run the image, and be large enough.

The models must fit into memory, the archive and its files onto the disk. In a pool the types stand in
order of preference, and an instance takes the first free one.
"""

from collections.abc import Sequence

from infra.catalog import instances
from infra.catalog.instances import Instance, load_instances
from infra.catalog.instances import list_instance_types as types_offered
from infra.catalog.limits import load_table
from infra.parameters.finding import Severity, find_nearest
from infra.parameters.placement import Placement, list_variant_placements
from infra.parameters.variant import InstancePool, Variant
from infra.policy.hosting import find_shared_ami
from infra.policy.sizing import compute_disk_gib, compute_volume_gib
from infra.preflight.rendering import format_count
from infra.preflight.rule import (
    ContainerRule,
    Findings,
    InstanceRule,
    Rule,
    VariantRule,
    VariantTableRule,
)


class InstanceUnknown(Rule):
    """SageMaker rejects an instance type that it does not host models on, after the stack has begun.

    Source: infra/catalog/instances.json
    """

    example = 'variants.primary.instance_type = "ml.c5.4xlrge"'

    def find_problems(self) -> Findings:
        known, excluded = load_instances(), load_table("instances")["excluded"]
        for key, (_, given) in self.candidate.instance_keys.items():
            if given in known:
                continue
            close, family = find_nearest(given, known), given.removeprefix("ml.")
            reason = next((why for one, why in excluded.items() if family.startswith(one)), None)
            problem = f"{given!r} is {f'not usable here: {reason}' if reason else 'unknown'}"
            allowed = f"the {len(known)} types that Servable knows, such as ml.c5.xlarge"
            remedy = f"did you mean {close}?" if close and not reason else "choose another"
            yield self.build_finding(key, problem, allowed=allowed, remedy=remedy)


class InstanceRetired(InstanceRule, acknowledgeable=True):
    """Retired types are still in the API's list but in no region's price list: they may not start.

    Source: infra/catalog/retired_instances.json
    """

    problem = "{instance.name} is retired: no region lists a price for it"

    def find_problems(self, key: str, name: str, instance: Instance) -> Findings:
        if instance.successor:
            change = f"change it to its successor {instance.successor}"
            remedy = f'{change}, or add {self.id} = "the reason" to [acknowledge]'
            yield self.build_finding(key, remedy=remedy)


class InstanceNotInRegion(InstanceRule, acknowledgeable=True):
    """If the region does not have the instance type, the endpoint waits for capacity and fails.

    Source: infra/catalog/availability.json, from AWS's price list
    """

    problem = "{self.environment.region} does not have {instance.name}"
    remedy = "choose one of those, or another region"
    reads = ("region",)

    def find_problems(self, key: str, name: str, instance: Instance) -> Findings:
        region, having = self.environment.region, instances.find_regions(instance.name)
        if instance.successor:
            return  # InstanceRetired reports it
        if region not in instances.list_regions():
            question = "whether the Region offers the instance type"
            yield self.build_unchecked(key, f"a region of infra/catalog: {region}", question)
        elif region not in having:
            size = instance.name.split(".")[-1]
            usable = [
                other.name
                for other in filter(None, map(load_instances().get, types_offered(region)))
                if other.name.endswith(f".{size}")
                and (other.device, other.architecture) == (instance.device, instance.architecture)
            ]
            elsewhere = f"{', '.join(having) or 'no region'} has it"
            yield self.build_finding(key, allowed=", ".join(usable) or elsewhere)


class RegionWithoutEndpoints(Rule, acknowledgeable=True):
    """CloudFormation creates an endpoint only where it has the resource type for it.

    Source: infra/catalog/availability.json, from CloudFormation's own schemas of each region
    """

    key = "region"
    problem = "CloudFormation has no AWS::SageMaker::Endpoint in {self.environment.region}"
    remedy = "choose another region, or try one endpoint there and acknowledge this finding"

    def find_problems(self) -> Findings:
        if self.environment.region in instances.list_regions_without_endpoints():
            yield self.build_finding()


class InstanceArchitecture(InstanceRule):
    """The TensorFlow Serving images are built for x86-64.

    Source: infra/catalog/images.json; the last arm64 image, 2.19, is out of patch
    """

    example = 'variants.primary.instance_type = "ml.c6g.xlarge"'
    problem = "{instance.name} is {instance.architecture}; the image is built for x86_64"
    allowed = "x86_64 types, such as ml.c5, ml.c6i, ml.c7i, ml.m5, ml.g4dn, ml.g5, ml.g6"
    remedy = "choose one of those"

    def find_problems(self, key: str, name: str, instance: Instance) -> Findings:
        model = self.environment.models.get(self.environment.variants[name].model)
        if instance.architecture != "x86_64" and (model is None or model.image is None):
            yield self.build_finding(key)


class PoolsRule(VariantTableRule):
    """A rule about variants with instance_pools."""

    table = "instance_pools"
    key = "variants.{name}.instance_pools"


class InstancePoolsRepeated(PoolsRule):
    """A repeated type adds no capacity: if AWS has none for the first, it has none for the second.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html (2026-11-22)
    """

    problem = "{twice} is listed more than once"
    remedy = "remove the repetition, or name another type"

    def find_problems(self, name: str, variant: Variant, pools: Sequence[InstancePool]) -> Findings:
        types = variant.instance_types
        twice = [kind for kind in dict.fromkeys(types) if types.count(kind) > 1]
        if twice:
            yield self.build_finding(given=None, twice=", ".join(twice))


class InstancePoolsDriver(PoolsRule):
    """A variant has one inference AMI: its driver must support every GPU type, and CPU types have none.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (InferenceAmiVersion, InstancePools); infra/catalog/inference_amis.json
    """

    problem = "no inference AMI supports all of {types}"
    allowed = "only CPU types, or GPU types that one AMI supports, such as ml.g5 and ml.g6"
    remedy = "move the others to a separate variant"
    reads = ("models.{variant.model}",)

    def find_problems(self, name: str, variant: Variant, pools: Sequence[InstancePool]) -> Findings:
        if variant.inference_ami is not None:
            return  # ami-family, ami-cuda and ami-without-gpu check each type
        placed = list_variant_placements(self.environment, name)
        try:
            find_shared_ami([(each.tensorflow, each.instance) for each in placed])
        except KeyError:
            yield self.build_finding(given=None, types=", ".join(variant.instance_types))


class InstancePoolsUneven(PoolsRule, severity=Severity.WARNING):
    """Predefined scaling metrics are means over all instances: a smaller type is full before the mean is.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html
    (Use weighted custom metrics for mixed fleets, 2026-11-22)
    """

    problem = "scaling treats instances of different sizes as equal: {types}"
    remedy = (
        "choose types of one size, or scale by the smallest type's measured rate and accept this; a policy "
        "on metric math that weighs the types is not built here: add it in CDK"
    )
    reads = ("variants.{name}.scaling",)

    def find_problems(self, name: str, variant: Variant, pools: Sequence[InstancePool]) -> Findings:
        sizes, shown = set(), []
        for instance in filter(None, map(load_instances().get, variant.instance_types)):
            gpus = f", {instance.gpus} GPUs" if instance.gpus else ""
            sizes.add((instance.vcpus, instance.gpus))
            shown.append(f"{instance.name} ({instance.vcpus} vCPUs{gpus})")
        if len(sizes) > 1 and variant.is_scaled:
            yield self.build_finding(given=None, types=", ".join(shown))


class Memory(ContainerRule, acknowledgeable=True):
    """Every model server loads all models; if memory runs out, the kernel kills one after the other.

    Source: docs/decisions/0011 (0.3 GiB per server, 128 MiB per worker, a tenth for the system),
    or the measurements in the file
    """

    problem = (
        "{instance.name}: {servers} ({need.servers_gib:.1f} GiB), {workers} ({need.workers_gib:.1f}) and the "
        "system ({need.system_gib:.1f}) need {need.total_gib:.1f} of {instance.memory_gib:g} GiB"
    )
    reads = ("models.{placement.variant.model}", "container")

    def find_problems(self, placement: Placement) -> Findings:
        instance, need = placement.instance, placement.memory_need
        if placement.variant.component:
            return  # component-memory checks the instance, of which this is a part
        if need is None:
            yield from self.report_unknown_size(placement)
        elif need.total_gib > instance.memory_gib:
            yield self.build_finding(
                placement.machine_key,
                given=instance.name,
                remedy="lower tfs_processes or gunicorn_workers, choose a larger type, or measure "
                f"models.{placement.variant.model}.server_memory_gib and worker_memory_mib",
                instance=instance,
                need=need,
                servers=format_count(placement.processes, "model server"),
                workers=format_count(placement.workers, "worker"),
            )


class StorageVolumeOnNvme(VariantRule):
    """An instance type with local NVMe has no EBS volume: SageMaker rejects a size for it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (VolumeSizeInGB)
    """

    key = "volume_gb"
    problem = (
        "volume_gb {placement.variant.volume_gb}: {placement.instance.name} has "
        "{placement.instance.local_nvme_gb} GB of local NVMe and takes no volume"
    )
    remedy = "remove it, or choose a type without local NVMe"
    reads = ("instance_type",)

    def find_problems(self, placement: Placement) -> Findings:
        if placement.variant.volume_gb is not None and placement.instance.local_nvme_gb:
            yield self.build_finding()


class StorageKeyOnNvme(VariantRule, severity=Severity.WARNING):
    """Local NVMe is encrypted by a hardware module of the instance, and not by your KMS key.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html (KmsKeyId)
    (2026-11-22)
    """

    key = "endpoint.volume_kms_key"
    problem = (
        "{self.environment.endpoint.volume_kms_key}: {placement.instance.name} of variant {placement.name} "
        "has local NVMe, which the key does not encrypt"
    )
    remedy = "remove it: the hardware encrypts it"
    reads = ("instance_type",)

    def find_problems(self, placement: Placement) -> Findings:
        key = self.environment.endpoint.volume_kms_key
        if key is not None and placement.instance.local_nvme_gb:
            yield self.build_finding()


class StorageTooSmall(VariantRule, acknowledgeable=True):
    """The disk must fit the archive and its unpacked files; if it is full, the instance never starts.

    Source: docs/decisions/0011; infra/catalog/documented_limits.json (default volume)
    """

    reads = ("instance_type", "models.{placement.variant.model}")

    def find_problems(self, placement: Placement) -> Findings:
        needed, given = compute_disk_gib(placement.served), placement.variant.volume_gb
        instance = placement.instance
        if needed is None:
            yield from self.report_unknown_size(placement)
            return
        room = compute_volume_gib(instance, placement.volume_gb)
        if needed > room:
            size = "" if given is None else f"volume_gb {given}: "
            enough_gb = int(needed * 2**30 / 1e9) + 1
            key, remedy = "volume_gb", f"set volume_gb = {enough_gb}"
            if placement.variant.serverless is not None:
                key = placement.machine_key
                remedy = "choose an instance_type: a serverless container's disk does not grow"
            elif instance.local_nvme_gb:
                remedy = "choose a type with more local NVMe"
            what, allowed = f"{size}archive and files need", f"{enough_gb} GB or more"
            problem = f"{what} {needed:.1f} GiB, but the disk of {instance.name} has {room:.1f}"
            yield self.build_finding(key, problem, given=given, allowed=allowed, remedy=remedy)
