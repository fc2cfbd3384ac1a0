"""Rules about what a serverless variant cannot have."""

from infra.parameters.placement import Placement
from infra.parameters.variant import Serverless, Variant
from infra.policy.sizing import SERVERLESS_START_SECONDS, download_seconds, load_seconds
from infra.preflight.rendering import counted
from infra.preflight.rule import Findings, VariantRule, VariantTableRule, artifact_example

OF_INSTANCES = (
    "min_instances",
    "max_instances",
    "provision_timeout_seconds",
    "volume_gb",
    "inference_ami",
    "download_timeout_seconds",
    "startup_timeout_seconds",
    "routing",
    "ssm_access",
    "core_dumps",
)


class ServerlessRule(VariantTableRule):
    """A rule about serverless variants."""

    table = "serverless"


class ServerlessInstanceKeys(ServerlessRule):
    """A serverless variant has no instances that these keys could apply to.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ServerlessConfig: instead of an instance-based configuration)
    """

    example = """\
variants.primary.serverless = { memory_mib = 2048, max_concurrency = 5 }
variants.primary.min_instances = 2"""
    remedy = "take it out, or serverless"

    def look(self, name: str, variant: Variant, serverless: Serverless) -> Findings:
        for key in OF_INSTANCES:
            if key in variant.model_fields_set:
                yield self.finding(
                    f"variants.{name}.{key}",
                    f"{key} {getattr(variant, key)}: a serverless variant has no instances",
                    allowed=f"no {key}",
                    reads=(f"variants.{name}.serverless",),
                )


class ServerlessExcluded(ServerlessRule):
    """Serverless Inference has one variant, one model, no VPC, no isolation and no data capture.

    It also takes no model that is stored uncompressed under a prefix.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (feature
    exclusions);
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (2026-11-22)
    (ModelDataSource); https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html
    (guardrails only apply to asynchronous and real-time endpoints)
    """

    example = """\
variants.primary.serverless = { memory_mib = 2048, max_concurrency = 5 }
capture = { sample_percent = 10 }"""
    allowed = "only with an instance_type"
    remedy = "take it out, or serverless"

    def look(self, name: str, variant: Variant, serverless: Serverless) -> Findings:
        model, model_key = self.environment.models.get(variant.model), f"models.{variant.model}"
        isolation = self.environment.security.network_isolation
        count = len(self.environment.variants)
        isolated = model is not None and model.network_isolation
        many = model is not None and model.multi_model is not None
        unpacked = model is not None and model.compression == "none"
        excluded = {
            "variants": (count > 1, counted(count, "variant")),
            "network": (bool(self.environment.network.subnets), "VPC"),
            "security.network_isolation": (isolation, "network isolation"),
            f"{model_key}.network_isolation": (isolated, "network isolation"),
            f"{model_key}.multi_model": (many, "multi_model"),
            f"{model_key}.compression": (unpacked, 'compression = "none"'),
            "capture": (self.environment.capture is not None, "data capture"),
            "asynchronous": (self.environment.asynchronous is not None, "queue"),
            "rollout": (self.environment.rollout is not None, "guarded update"),
        }
        for key, (present, what) in excluded.items():
            if present:
                yield self.finding(
                    key,
                    f"a serverless endpoint ({name}) takes no {what}"
                    if key != "variants"
                    else f"{what}, and {name} is serverless: it must be the only one",
                    given=None,
                    reads=(f"variants.{name}.serverless",),
                )


class ServerlessProvisioned(ServerlessRule):
    """Provisioned concurrency is part of max_concurrency and cannot exceed it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantServerlessConfig.html
    (ProvisionedConcurrency)
    """

    example = """\
variants.primary.serverless = { memory_mib = 2048, max_concurrency = 5, provisioned_concurrency = 6 }"""

    def look(self, name: str, variant: Variant, serverless: Serverless) -> Findings:
        key = f"variants.{name}.serverless"
        least, most = serverless.provisioned_concurrency, serverless.max_provisioned_concurrency
        if most is not None and (least is None or most < least):
            yield self.finding(
                f"{key}.max_provisioned_concurrency",
                f"max_provisioned_concurrency {most} with provisioned_concurrency {least or 'left out'}",
                allowed="provisioned_concurrency or more",
                remedy="set provisioned_concurrency at or below it, or take it out",
            )
        bounds = {"provisioned_concurrency": least, "max_provisioned_concurrency": most}
        for word, given in bounds.items():
            if given is not None and given > serverless.max_concurrency:
                yield self.finding(
                    f"{key}.{word}",
                    f"{word} {given} is above max_concurrency {serverless.max_concurrency}",
                    allowed=f"1 to {serverless.max_concurrency}",
                    remedy=f"lower it, or raise {key}.max_concurrency",
                )


class ServerlessStart(VariantRule):
    """SageMaker gives up a serverless container that does not answer /ping in three minutes.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (container);
    docs/decisions/0011 (how long a start takes)
    """

    acknowledgeable = True
    example = artifact_example(
        "variants.primary.serverless = { memory_mib = 6144, max_concurrency = 5 }", size_gib=10
    )
    allowed = f"at most {SERVERLESS_START_SECONDS} s"
    remedy = "make the model smaller, or choose an instance_type"

    def look(self, placement: Placement) -> Findings:
        if placement.variant.serverless is None:
            return
        fetch = download_seconds(placement.served)
        load = load_seconds(placement.served, processes=1)
        if fetch is None or load is None:
            yield from self.size_unknown(placement)
        elif fetch + load > SERVERLESS_START_SECONDS:
            yield self.finding(
                placement.machine_key,
                f"on {placement.instance.name} a start takes about {fetch + load:.0f} s to download and "
                "load the model",
                reads=(f"models.{placement.variant.model}",),
            )
