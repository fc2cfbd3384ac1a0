"""Rules about inference components: models with copies of their own on the instances of a variant.

A variant with sleep_after_minutes is one too. TensorFlow Serving was seen as a component on AWS
(hashicorp/terraform-provider-aws#48894).
"""

from collections import Counter

from infra.catalog.instances import load_instances
from infra.parameters.finding import Finding, Severity
from infra.parameters.placement import Placement
from infra.parameters.variant import OF_COMPONENTS, Variant
from infra.policy.sizing import MIB_PER_GIB, compute_copy_room, count_instances_for_copies
from infra.preflight.rendering import format_count
from infra.preflight.rule import EachVariantRule, Findings, Parts, Rule, VariantRule

LONGEST_NAME = 63


class ComponentRule(Rule):
    """A rule about variants that run copies: `find_problems` takes a name and its variant."""

    def list_parts(self) -> Parts:
        variants = self.environment.variants.items()
        return [(name, variant) for name, variant in variants if variant.has_copies]


class ComponentExcluded(ComponentRule):
    """A component is one model on instances of one type, and each request names it.

    An asynchronous request cannot; a serverless variant has no instances; a multi-model is rejected
    as a component.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointAsync.html
    (no InferenceComponentName); https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py
    (several containers, 2026); botocore 1.44.5 (2026-11)
    """

    def find_problems(self, name: str, variant: Variant) -> Findings:
        environment, models = self.environment, self.environment.models
        key, own = f"variants.{name}", "components" if variant.components else "sleep_after_minutes"
        count = len(environment.variants)
        excluded: dict[str, tuple[object, str]] = {
            "variants": (count > 1, format_count(count, "variant")),
            f"{key}.serverless": (variant.serverless, "serverless"),
            f"{key}.shadow": (variant.shadow, "shadow"),
            f"{key}.instance_pools": (variant.instance_pools, "instance_pools"),
            f"{key}.core_dumps": (variant.core_dumps, "core_dumps"),
            "capture": (environment.capture, "data capture"),
            "asynchronous": (environment.asynchronous, "queue"),
            "rollout": (environment.rollout, "guarded update"),
        }
        for served in environment.serving_variants.values():
            model = models.get(served.model)
            many = model is not None and model.multi_model
            excluded[f"models.{served.model}.multi_model"] = many, "multi_model"
        for other, (present, what) in excluded.items():
            if present:
                problem = f"{what}: variant {name} has {own}, and this combination is undocumented"
                remedy, reads = f"remove it, or {own}", (f"{key}.{own}",)
                yield self.build_finding(other, problem, given=None, remedy=remedy, reads=reads)


class ComponentKeys(ComponentRule):
    """Put the keys that a model needs in its component's table; in the variant's they have no effect.

    Source: infra/parameters/variant.py
    """

    key = "variants.{name}.{field}"
    problem = "{field} of variant {name} has no effect: it has components"
    allowed = "{own} in [variants.{name}.components.NAME]"
    remedy = 'move it into the components that need it, or remove it (in a base file: model = "")'
    reads = ("variants.{name}.components",)

    def find_problems(self, name: str, variant: Variant) -> Findings:
        for field in (*OF_COMPONENTS, "copy_memory_mib") if variant.components else ():
            if getattr(variant, field) != Variant.model_fields[field].default:
                own = "memory_mib" if field == "copy_memory_mib" else field
                yield self.build_finding(given=None, field=field, own=own)


class ComponentName(ComponentRule):
    """A component is named ENDPOINT-NAME, of at most 63 characters; alarms and graphs have its name too.

    Source: botocore 1.44.5 (InferenceComponentName)
    """

    def find_problems(self, name: str, variant: Variant) -> Findings:
        variants = self.environment.variants
        twice = Counter(each for other in variants.values() for each in other.components)
        for each in variant.components or (name,):
            component = f"{self.environment.endpoint.name}-{each}"
            if len(component) > LONGEST_NAME:
                yield self.build_finding(
                    "endpoint.name",
                    f"the inference component {component} has {len(component)} characters",
                    allowed=f"{LONGEST_NAME} characters together with {each} and a hyphen",
                    remedy="shorten one of the two names",
                    reads=(f"variants.{name}",),
                )
            if each in variant.components and (each in variants or twice[each] > 1):
                key = f"variants.{name}.components.{each}"
                problem = f"{each} is also the name of a variant, or of another component"
                yield self.build_finding(key, problem, remedy="rename it", reads=("variants",))


class ComponentBounds(EachVariantRule):
    """Copies need a minimum and a maximum; only a component that sleeps has 0, and scaling must add them.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
    (2026-11-23)
    """

    key = "{table}.{bound}"
    reads = ("{table}.{partner}",)

    def find_problems(self, name: str, variant: Variant) -> Findings:
        table, least = f"variants.{name}", variant.min_instances
        asleep = variant.sleep_after_minutes is not None
        if asleep and least and "min_instances" in variant.model_fields_set:
            problem = f"min_instances {least} conflicts with sleep_after_minutes, which ends all instances"
            remedy = "remove one of them; at_least in a schedule keeps instances for some hours"
            yield self._report(table, "min_instances", problem, remedy)
        if not variant.has_copies and variant.copy_memory_mib is not None:
            problem = f"copy_memory_mib {variant.copy_memory_mib} has no effect without sleep_after_minutes"
            yield self._report(table, "copy_memory_mib", problem, "remove it")
        awake = [each for each, own in variant.components.items() if not own.sleep_after_minutes]
        if awake and least == 0:
            problem = f"min_instances 0 is never reached: {', '.join(awake)} never sleeps"
            yield self._report(table, "min_instances", problem, "remove it", "components")
        for each in variant.components:
            yield from self._check_copies(f"{table}.components.{each}", variant.for_component(each))

    def _check_copies(self, table: str, narrowed: Variant) -> Findings:
        own = narrowed.components[table.rpartition(".")[2]]
        least, most = narrowed.capacity
        if own.sleep_after_minutes and "min_copies" in own.model_fields_set and own.min_copies:
            problem = f"min_copies {own.min_copies} conflicts with sleep_after_minutes, which ends all copies"
            remedy = "remove one of them; at_least in a schedule keeps copies for some hours"
            yield self._report(table, "min_copies", problem, remedy)
        elif own.min_copies == 0 and not own.sleep_after_minutes:
            problem = "min_copies 0: nothing stops the last copy or starts the first one"
            remedy = "raise it, or add sleep_after_minutes = 15"
            yield self._report(table, "min_copies", problem, remedy)
        if least > most:
            problem = f"min_copies {least} is above max_copies {most}"
            remedy = "lower min_copies or raise max_copies"
            yield self._report(table, "min_copies", problem, remedy, "max_copies")
        elif most > max(1, least) and narrowed.scaling is None:
            problem = f"max_copies {most} is never reached, because nothing scales"
            remedy = "add a scaling table with max_rps_per_instance, or remove max_copies"
            yield self._report(table, "max_copies", problem, remedy, "scaling")

    def _report(
        self,
        table: str,
        bound: str,
        problem: str,
        remedy: str,
        partner: str = "sleep_after_minutes",
    ) -> Finding:
        return self.build_finding(
            problem=problem, remedy=remedy, table=table, bound=bound, partner=partner
        )


class ComponentInstanceType(ComponentRule, severity=Severity.WARNING):
    """Version 3 of AWS's SDK rejects components on some families, although they ran on one of these, c5.

    Source: https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026: m5, m5d,
    c5, c5d, p2); https://github.com/hashicorp/terraform-provider-aws/pull/48894 (2026-07-09: c5 works)
    """

    key = "variants.{name}.instance_type"
    problem = "{variant.instance_type}: AWS's SDK rejects inference components on this family"
    allowed = "ml.c5, ml.c6i, ml.m6i, ml.g5 and others: not ml.m5, ml.m5d, ml.c5d, ml.p2"
    remedy = "choose another type, or try it in the account first"
    reads = ("variants.{name}",)

    def find_problems(self, name: str, variant: Variant) -> Findings:
        if (variant.instance_type or "").startswith(("ml.m5.", "ml.m5d.", "ml.c5d.", "ml.p2.")):
            yield self.build_finding()


class ComponentMemory(VariantRule, acknowledgeable=True):
    """A copy is placed by what it reserves: too little overloads the instance, too much is never placed.

    Source: botocore 1.44.5 (MinMemoryRequiredInMb); https://github.com/huggingface/skills/pull/215 (2026-07:
    a reservation and no cap; "There is not enough hardware resources" for 4096 MB on 16 GiB)
    """

    key = "{chosen.name}"
    problem = (
        "{chosen.name} {chosen.value}: model servers and workers need {least} MiB, and "
        "{placement.instance.name} has room for {most}"
    )
    reads = ("instance_type", "models.{placement.variant.model}")

    def find_problems(self, placement: Placement) -> Findings:
        chosen = placement.copy_memory_mib
        if not placement.variant.has_copies or placement.variant.serverless is not None:
            return
        need = placement.memory_need
        if need is None:
            yield from self.report_unknown_size(placement)
            return
        least = int((need.servers_gib + need.workers_gib) * MIB_PER_GIB)
        most = int(compute_copy_room(placement.whole_instance)[2])
        if not least <= chosen.value <= most:
            remedy = "lower tfs_processes or gunicorn_workers, or choose a larger type"
            if chosen.origin == "file":
                remedy = "remove it: the required memory is reserved"
            yield self.build_finding(
                given=chosen.value,
                allowed=f"{least} to {most}" if least <= most else f"at most {most}",
                remedy=remedy,
                chosen=chosen,
                least=least,
                most=most,
            )


class ComponentsFit(ComponentRule, acknowledgeable=True):
    """A copy for which no instance has room is not started, and its component fails or stays Updating.

    Source: https://github.com/huggingface/skills/pull/215 (2026-07: "There is not enough hardware
    resources"); botocore 1.44.5 (InferenceComponentComputeResourceRequirements)
    """

    def find_problems(self, name: str, variant: Variant) -> Findings:
        whole = load_instances().get(variant.instance_type or "")
        placed = [each for each in self.candidate.placements if each.name in variant.components]
        if whole is None or not placed:
            return
        room, limit = compute_copy_room(whole), variant.instance_limit
        for each in placed:
            for asked, most in ((each.copy_cpus, whole.vcpus), (each.copy_gpus, whole.gpus)):
                if asked.value > most:
                    yield self.build_finding(
                        each.build_key(asked.name),
                        f"{asked.name} {asked.value:g}: {whole.name} has {most}",
                        remedy="lower it, or choose a larger type",
                        reads=(f"variants.{name}.instance_type",),
                    )
        for bound, when in enumerate(("at the start", "at max_copies")):
            needs = [
                (each.copy_cpus.value, each.copy_gpus.value, each.copy_memory_mib.value)
                for each in placed
                for _ in range(max(1, each.variant.capacity[bound]))
            ]
            needed = count_instances_for_copies(needs, room)
            if needed is not None and needed > limit:
                yield self.build_finding(
                    f"variants.{name}.max_instances",
                    f"max_instances {limit}: {len(needs)} copies {when} need {needed} of {whole.name}, which "
                    f"has {whole.vcpus} vCPUs, {format_count(whole.gpus, 'GPU')} and {room[2]:.0f} MiB for "
                    "copies",
                    given=limit,
                    allowed=f"{needed} or more",
                    remedy="raise it, lower what copies reserve, or choose a larger type",
                    reads=(f"variants.{name}.components", f"variants.{name}.instance_type"),
                    severity=Severity.WARNING if bound else Severity.ERROR,
                )
                return


class ComponentGpusIdle(ComponentRule, severity=Severity.WARNING):
    """GPUs that no component reserves stay idle, but you pay for them.

    Source: botocore 1.44.5 (NumberOfAcceleratorDevicesRequired: a copy gets whole GPUs, or none)
    """

    key = "variants.{name}.instance_type"
    problem = "no component reserves a GPU of {variant.instance_type}"
    remedy = (
        "give gpus in [variants.{name}.components.NAME]: GPUs are divided only if each "
        "component gets one"
    )
    reads = ("variants.{name}.components",)

    def find_problems(self, name: str, variant: Variant) -> Findings:
        placed = [each for each in self.candidate.placements if each.name in variant.components]
        reserved = any(each.copy_gpus.value for each in placed)
        if placed and placed[0].whole_instance.gpus and not reserved:
            yield self.build_finding()


class ComponentRepeated(ComponentRule, severity=Severity.WARNING):
    """Requests name a component and not a model: copies of one model in two of them do not share the load.

    Source: botocore 1.44.5 (InvokeEndpoint, InferenceComponentName)
    """

    remedy = (
        "remove one and raise max_copies of the other, or accept it if their settings must differ"
    )

    def find_problems(self, name: str, variant: Variant) -> Findings:
        first: dict[str, str] = {}
        for each, component in variant.components.items():
            if (other := first.setdefault(component.model, each)) != each:
                yield self.build_finding(
                    f"variants.{name}.components.{each}.model",
                    f"{each} and {other} are both copies of {component.model}",
                )
