"""Rules about asynchronous endpoints, serverless variants, and components that sleep.

A component sleeps if no copy and no instance runs while nobody asks. Nobody has shown TensorFlow Serving at
zero: docs/variants.md says so, and it isn't a finding.
"""

from infra.parameters.finding import Severity
from infra.parameters.model import ModelTable
from infra.parameters.placement import Placement
from infra.parameters.variant import Serverless, Variant
from infra.policy import sizing
from infra.policy.sizing import SERVERLESS_START_SECONDS
from infra.preflight.rule import EachVariantRule, Findings, Rule, VariantRule, VariantTableRule


class AsynchronousMultiModel(EachVariantRule):
    """InvokeEndpointAsync has no TargetModel: a request could not name one of several models.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointAsync.html
    """

    key = "variants.{name}.model"
    problem = "{variant.model} has several models, but an asynchronous request cannot select one"
    remedy = "choose another model, or remove [asynchronous]"
    reads = ("asynchronous",)

    def find_problems(self, name: str, variant: Variant) -> Findings:
        model = self.environment.models.get(variant.model)
        if self.environment.kind.queued and model is not None and model.multi_model is not None:
            yield self.build_finding()


class AsynchronousSeveral(Rule, acknowledgeable=True):
    """The queue and its metrics belong to the endpoint: scaling cannot see the load of one variant.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html
    (ApproximateBacklogSizePerInstance has the dimension EndpointName only)
    """

    key = "asynchronous"
    problem = (
        "{count} variants share one queue, and its length is known only for the whole endpoint"
    )
    remedy = "write a separate environment for each variant"
    reads = ("variants",)

    def find_problems(self) -> Findings:
        count = len(self.environment.production_variants)
        if self.environment.kind.queued and count > 1:
            yield self.build_finding(given=count, count=count)


class AsynchronousCapture(Rule, severity=Severity.WARNING):
    """Every asynchronous request and answer is already in S3: a capture would store it twice.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture.html (only
    real-time endpoints and batch transform)
    """

    key = "capture.sample_percent"
    problem = (
        "sample_percent {self.environment.capture.sample_percent}: [asynchronous] already keeps every "
        "request and answer"
    )
    remedy = "remove [capture]"
    reads = ("asynchronous",)

    def find_problems(self) -> Findings:
        if self.environment.kind.queued and self.environment.capture is not None:
            yield self.build_finding()


# Keys of a variant that a serverless one may have, or that other rules report there.
NOT_OF_INSTANCES = (
    *("model", "serverless", "shadow", "weight", "environment", "container", "scaling"),
    *("components", "instance_type", "instance_pools"),
    *("sleep_after_minutes", "copy_memory_mib", "initial_instances", "start_seconds"),
)


class ServerlessInstanceKeys(VariantTableRule):
    """A serverless variant has no instances that these keys could apply to.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ServerlessConfig: instead of an instance-based configuration)
    """

    table = "serverless"
    key = "variants.{name}.{field}"
    problem = "{field} {value} cannot apply: a serverless variant has no instances"
    remedy = "remove it, or remove serverless"
    reads = ("variants.{name}.serverless",)

    def find_problems(self, name: str, variant: Variant, serverless: Serverless) -> Findings:
        for field in Variant.model_fields:
            if field in variant.model_fields_set and field not in NOT_OF_INSTANCES:
                yield self.build_finding(field=field, value=getattr(variant, field))


class ServerlessExcluded(VariantTableRule):
    """Serverless Inference has one variant, one model, no VPC, no isolation and no data capture.

    It also takes no model that is stored uncompressed under a prefix.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (feature
    exclusions);
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (2026-11-22)
    (ModelDataSource); https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html
    (guardrails only apply to asynchronous and real-time endpoints)
    """

    table = "serverless"
    remedy = "remove it, or remove serverless"
    reads = ("variants.{name}.serverless",)

    def find_problems(self, name: str, variant: Variant, serverless: Serverless) -> Findings:
        environment, key = self.environment, f"models.{variant.model}"
        model = environment.models.get(variant.model) or ModelTable()
        count, isolation = len(environment.variants), "network isolation"
        excluded = {
            "network": (environment.network.subnets, "a VPC"),
            "security.network_isolation": (environment.security.network_isolation, isolation),
            f"{key}.network_isolation": (model.network_isolation, isolation),
            f"{key}.multi_model": (model.multi_model, "multi_model"),
            f"{key}.compression": (model.compression == "none", 'compression = "none"'),
            "capture": (environment.capture, "data capture"),
            "asynchronous": (environment.asynchronous, "a queue"),
            "rollout": (environment.rollout, "guarded updates"),
        }
        if count > 1:
            alone = f"{count} variants, and {name} is serverless, so it must be the only one"
            yield self.build_finding("variants", alone)
        for other, (present, what) in excluded.items():
            if present:
                problem = f"a serverless endpoint ({name}) does not support {what}"
                yield self.build_finding(other, problem, given=None)


class ServerlessProvisioned(VariantTableRule):
    """Provisioned concurrency is part of max_concurrency and cannot exceed it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantServerlessConfig.html
    (ProvisionedConcurrency)
    """

    table = "serverless"

    def find_problems(self, name: str, variant: Variant, serverless: Serverless) -> Findings:
        key = f"variants.{name}.serverless"
        least, most = serverless.provisioned_concurrency, serverless.max_provisioned_concurrency
        if most is not None and (least is None or most < least):
            yield self.build_finding(
                f"{key}.max_provisioned_concurrency",
                f"max_provisioned_concurrency {most} conflicts with "
                f"provisioned_concurrency {least or 'omitted'}",
                remedy="set provisioned_concurrency at or below it, or remove it",
            )
        bounds = {"provisioned_concurrency": least, "max_provisioned_concurrency": most}
        for word, given in bounds.items():
            if given is not None and given > serverless.max_concurrency:
                problem = f"{word} {given} is above max_concurrency {serverless.max_concurrency}"
                remedy = f"lower it, or raise {key}.max_concurrency"
                yield self.build_finding(f"{key}.{word}", problem, remedy=remedy)


class ServerlessStart(VariantRule, acknowledgeable=True):
    """SageMaker gives up a serverless container that does not answer /ping in three minutes.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (container);
    docs/decisions/0011 (how long a start takes)
    """

    allowed = f"at most {SERVERLESS_START_SECONDS} s"
    remedy = "make the model smaller, or choose an instance_type"
    reads = ("models.{placement.variant.model}",)

    def find_problems(self, placement: Placement) -> Findings:
        if placement.variant.serverless is None:
            return
        fetch = sizing.estimate_download_seconds(placement.served)
        load = sizing.estimate_load_seconds(placement.served, processes=1)
        if fetch is None or load is None:
            yield from self.report_unknown_size(placement)
        elif fetch + load > SERVERLESS_START_SECONDS:
            takes = f"a start takes about {fetch + load:.0f} s to download and load the model"
            yield self.build_finding(placement.machine_key, f"on {placement.instance.name} {takes}")


class SleepRegion(VariantTableRule, acknowledgeable=True):
    """AWS rejected a minimum of 0 instances in eu-west-3; the SDK excludes GovCloud, isolated regions, China.

    Source: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27: "Min instance count needs to be
    greater than 0 for enabled managed instance scaling"; us-east-1 takes it);
    https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026)
    """

    table = "sleep_after_minutes"
    key = "region"
    problem = (
        "in {self.environment.region} AWS rejects a minimum of zero instances (variant {name})"
    )
    allowed = "a region other than eu-west-3, us-gov-*, us-iso*, cn-*"
    remedy = "choose another region, or remove sleep_after_minutes"
    reads = ("variants.{name}.sleep_after_minutes",)

    def find_problems(self, name: str, variant: Variant, minutes: int) -> Findings:
        if self.environment.region.startswith(("eu-west-3", "us-gov-", "us-iso", "cn-")):
            yield self.build_finding()


class SleepTracking(VariantTableRule):
    """Target tracking removes the last copy too, after 15 minutes below its target.

    Source: https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
    (2024-12-03)
    """

    table = "sleep_after_minutes"
    key = "variants.{name}.sleep_after_minutes"
    problem = "sleep_after_minutes {minutes}: target tracking removes the last copy after 15"
    remedy = "lower it, or remove the target from the scaling table"
    reads = ("variants.{name}.scaling",)

    def find_problems(self, name: str, variant: Variant, minutes: int) -> Findings:
        table = variant.scaling
        tracked = table and (table.max_rps_per_instance or table.max_concurrency_per_instance)
        # Its alarms were seen to look back 15 minutes before they remove a copy.
        if tracked and minutes > 15:
            yield self.build_finding()


class SleepUnwatched(Rule):
    """An alarm on missing traffic fires whenever the endpoint sleeps, which isn't a fault.

    Source: docs/variants.md
    """

    key = "alarms.no_traffic_minutes"
    problem = "no_traffic_minutes {minutes}: {name} sleeps without traffic, so the alarm would fire"
    remedy = "remove one of them"
    reads = ("variants.{name}.sleep_after_minutes",)

    def find_problems(self) -> Findings:
        minutes = self.environment.alarms.no_traffic_minutes
        for name, variant in self.environment.variants_by_table.items():
            if minutes is not None and variant.can_sleep:
                yield self.build_finding(name=name, minutes=minutes)


class SleepProduction(VariantTableRule, acknowledgeable=True):
    """Every request fails until the first copy serves: 5 to 10 minutes, as measured.

    Source: https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
    (2024-12-03); https://github.com/huggingface/skills/pull/215 (2026-07)
    """

    table = "sleep_after_minutes"
    key = "variants.{name}.sleep_after_minutes"
    problem = "sleep_after_minutes {minutes}: requests in production fail for minutes"
    remedy = "remove it; if callers can wait, acknowledge it"
    reads = ("production",)

    def find_problems(self, name: str, variant: Variant, minutes: int) -> Findings:
        if self.candidate.needs_redundancy:
            yield self.build_finding()
