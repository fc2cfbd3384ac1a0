"""Rules about variants that sleep: inference components on instances that may be none.

TensorFlow Serving was seen as a component on AWS (hashicorp/terraform-provider-aws#48894, at least one
instance); that nobody has shown it at zero is said in docs/variants.md and is no finding.
"""

from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.variant import Variant
from infra.policy.sizing import SYSTEM_SHARE, memory
from infra.preflight.rendering import counted
from infra.preflight.rule import EachVariantRule, Findings, Rule, VariantRule, VariantTableRule

LONGEST_NAME = 63
# Minutes that a target tracking policy looks back before it removes a copy, as its alarms were seen.
TRACKING_MINUTES = 15
MIB_PER_GIB = 1024


class SleepRule(VariantTableRule):
    """A rule about variants that sleep."""

    table = "sleep_after_minutes"


class SleepExcluded(SleepRule):
    """A component is one model on instances of one type, and each request names it.

    An asynchronous request cannot; a serverless variant has no instances; a model of several is refused
    as a component. That samples, copies for a shadow, weights or guarded updates work with components is
    documented nowhere.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointAsync.html
    (no InferenceComponentName); https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py
    (several containers, 2026); botocore 1.44.5 (2026-11)
    """

    example = """\
variants.primary.sleep_after_minutes = 15
capture = { sample_percent = 10 }"""
    allowed = "only without sleep_after_minutes"
    remedy = "take it out, or sleep_after_minutes"

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        model, key = self.environment.models.get(variant.model), f"variants.{name}"
        count = len(self.environment.variants)
        many = model is not None and model.multi_model is not None
        excluded = {
            "variants": (count > 1, counted(count, "variant")),
            f"{key}.serverless": (variant.serverless is not None, "serverless"),
            f"{key}.shadow": (variant.shadow, "shadow"),
            f"{key}.instance_pools": (variant.instance_pools is not None, "instance_pools"),
            f"{key}.core_dumps": (variant.core_dumps is not None, "core_dumps"),
            f"models.{variant.model}.multi_model": (many, "multi_model"),
            "capture": (self.environment.capture is not None, "data capture"),
            "asynchronous": (self.environment.asynchronous is not None, "queue"),
            "rollout": (self.environment.rollout is not None, "guarded update"),
        }
        for other, (present, what) in excluded.items():
            if present:
                yield self.finding(
                    other,
                    f"{what}: variant {name} sleeps, and nothing documents it for a component",
                    given=None,
                    reads=(f"{key}.sleep_after_minutes",),
                )


class SleepBounds(EachVariantRule):
    """A variant that sleeps has a minimum of zero, and only such a variant has copies.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
    (2026-11-23)
    """

    example = """\
variants.primary.sleep_after_minutes = 15
variants.primary.min_instances = 2"""

    def look(self, name: str, variant: Variant) -> Findings:
        key = f"variants.{name}"
        if variant.sleeps and variant.min_instances and "min_instances" in variant.model_fields_set:
            yield self.finding(
                f"{key}.min_instances",
                f"min_instances {variant.min_instances}: the variant sleeps, and then runs none",
                allowed="no min_instances with sleep_after_minutes",
                remedy="take one of them out; at_least in a schedule keeps instances for some hours",
                reads=(f"{key}.sleep_after_minutes",),
            )
        if not variant.sleeps and variant.copy_memory_mib is not None:
            yield self.finding(
                f"{key}.copy_memory_mib",
                f"copy_memory_mib {variant.copy_memory_mib} has no effect: the variant does not sleep",
                allowed="only with sleep_after_minutes",
                remedy="take it out",
                reads=(f"{key}.sleep_after_minutes",),
            )


class SleepRegion(SleepRule):
    """A minimum of no instances was refused in eu-west-3; the SDK excludes GovCloud, isolated regions, China.

    Source: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27: "Min instance count needs to be
    greater than 0 for enabled managed instance scaling"; us-east-1 takes it);
    https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026)
    """

    acknowledgeable = True
    example = """\
region = "eu-west-3"
variants.primary.sleep_after_minutes = 15"""
    key = "region"
    problem = "in {self.environment.region} a minimum of zero instances is refused (variant {name})"
    allowed = "a region other than eu-west-3, us-gov-*, us-iso*, cn-*"
    remedy = "choose another region, or take sleep_after_minutes out"
    reads = ("variants.{name}.sleep_after_minutes",)

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        if self.environment.region.startswith(("eu-west-3", "us-gov-", "us-iso", "cn-")):
            yield self.finding(name=name)


class SleepInstanceType(SleepRule):
    """The SDK's third version refuses components on some families; on one of these, c5, they were seen.

    Source: https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026: m5, m5d,
    c5, c5d, p2); https://github.com/hashicorp/terraform-provider-aws/pull/48894 (2026-07-09: c5 works)
    """

    severity = Severity.WARNING
    example = """\
variants.primary.instance_type = "ml.m5.xlarge"
variants.primary.sleep_after_minutes = 15"""
    key = "variants.{name}.instance_type"
    problem = "{variant.instance_type}: AWS's SDK refuses inference components on this family"
    allowed = "ml.c5, ml.c6i, ml.m6i, ml.g5 and others: not ml.m5, ml.m5d, ml.c5d, ml.p2"
    remedy = "choose another type, or try it in the account first"
    reads = ("variants.{name}.sleep_after_minutes",)

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        if (variant.instance_type or "").startswith(("ml.m5.", "ml.m5d.", "ml.c5d.", "ml.p2.")):
            yield self.finding(name=name, variant=variant)


class SleepMemory(VariantRule):
    """A copy is placed by what it reserves: too little overloads the instance, too much is never placed.

    Source: botocore 1.44.5 (MinMemoryRequiredInMb); https://github.com/huggingface/skills/pull/215 (2026-07:
    a reservation and no cap; "There is not enough hardware resources" for 4096 MB on 16 GiB)
    """

    acknowledgeable = True
    example = """\
variants.primary.sleep_after_minutes = 15
variants.primary.copy_memory_mib = 128"""

    def look(self, placement: Placement) -> Findings:
        given = placement.variant.copy_memory_mib
        if not placement.variant.sleeps or given is None:
            return
        instance, processes, workers = placement.instance, placement.processes, placement.workers
        need = memory(instance, placement.served, processes=processes, workers=workers)
        most = int((1 - SYSTEM_SHARE) * instance.memory_gib * MIB_PER_GIB)
        if need is None:
            yield from self.size_unknown(placement)
            return
        least = int((need.servers_gib + need.workers_gib) * MIB_PER_GIB)
        if not least <= given <= most:
            yield self.finding(
                placement.key("copy_memory_mib"),
                f"copy_memory_mib {given}: model servers and workers need {least} MiB, and "
                f"{instance.name} has room for {most}",
                allowed=f"{least} to {most}",
                remedy="take it out: the need is reserved",
                reads=(placement.key("instance_type"), f"models.{placement.variant.model}"),
            )


class SleepName(SleepRule):
    """The component is named ENDPOINT-VARIANT, and a name of SageMaker's has at most 63 characters.

    Source: botocore 1.44.5 (InferenceComponentName)
    """

    example = f"""\
endpoint.name = "{"e" * 60}"
variants.primary.sleep_after_minutes = 15"""
    key = "endpoint.name"
    allowed = f"{LONGEST_NAME} characters together with the variant's name and a hyphen"
    remedy = "shorten one of both names"
    reads = ("variants.{name}",)

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        component = f"{self.environment.endpoint.name}-{name}"
        if len(component) > LONGEST_NAME:
            yield self.finding(
                problem=f"the inference component {component} has {len(component)} characters",
                name=name,
            )


class SleepTracking(SleepRule):
    """Target tracking removes the last copy too, after 15 minutes below its target.

    Source: https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
    (2024-12-03)
    """

    example = """\
variants.primary.sleep_after_minutes = 60
variants.primary.scaling = { max_rps_per_instance = 100 }"""
    key = "variants.{name}.sleep_after_minutes"
    problem = "sleep_after_minutes {minutes}: scaling by a target ends the last copy after 15"
    allowed = f"1 to {TRACKING_MINUTES} with max_rps_per_instance or max_concurrency_per_instance"
    remedy = "lower it, or take the target out of the scaling table"
    reads = ("variants.{name}.scaling",)

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        table = variant.scaling
        tracked = table and (table.max_rps_per_instance or table.max_concurrency_per_instance)
        if tracked and minutes > TRACKING_MINUTES:
            yield self.finding(name=name, minutes=minutes)


class SleepUnwatched(Rule):
    """An alarm on missing traffic fires whenever the endpoint sleeps, which is no fault.

    Source: docs/variants.md
    """

    example = """\
variants.primary.sleep_after_minutes = 15
alarms.no_traffic_minutes = 30"""
    key = "alarms.no_traffic_minutes"
    problem = (
        "no_traffic_minutes {minutes}: {name} sleeps without traffic, and the alarm would fire"
    )
    allowed = "no no_traffic_minutes with sleep_after_minutes"
    remedy = "take one of them out"
    reads = ("variants.{name}.sleep_after_minutes",)

    def look(self) -> Findings:
        minutes = self.environment.alarms.no_traffic_minutes
        for name, variant in self.environment.variants.items():
            if minutes is not None and variant.sleeps:
                yield self.finding(name=name, minutes=minutes)


class SleepProduction(SleepRule):
    """Every request is refused until the first copy serves: 5 to 10 minutes, as seen.

    Source: https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
    (2024-12-03); https://github.com/huggingface/skills/pull/215 (2026-07)
    """

    acknowledgeable = True
    example = """\
production = true
variants.primary.sleep_after_minutes = 15"""
    key = "variants.{name}.sleep_after_minutes"
    problem = "sleep_after_minutes {minutes}: callers in production are refused for minutes"
    allowed = "only where production = false"
    remedy = "take it out; callers that may wait: acknowledge it"
    reads = ("production",)

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        if self.candidate.in_production:
            yield self.finding(name=name, minutes=minutes)
