"""The live variant that is copied, as AWS describes it."""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.catalog.instances import instances

_MODEL_KEYS = ("PrimaryContainer", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation")
# Left out, SageMaker would also collect OpenTelemetry metrics:
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-detailed-observability-getting-started.html
# (read 2026-11-22)
_NO_METRICS_CONFIG = {"EnableDetailedObservability": False}
_VARIANT_KEYS = (
    "VariantName",
    "InstanceType",
    "VolumeSizeInGB",
    "ModelDataDownloadTimeoutInSeconds",
    "ContainerStartupHealthCheckTimeoutInSeconds",
    "InferenceAmiVersion",
)


class TemporaryError(Exception):
    """A temporary endpoint cannot be used. `str()` is a whole sentence."""


@dataclass(frozen=True, kw_only=True)
class LiveVariant:
    """`model` and `config` as the requests that make them have them."""

    model: dict[str, Any]
    config: dict[str, Any]
    metrics: dict[str, Any]
    """MetricsConfig of its endpoint configuration: what is published is the same of the copy."""

    @property
    def variables(self) -> dict[str, str]:
        return dict(self.model["PrimaryContainer"].get("Environment", {}))

    @property
    def archive(self) -> str | None:
        """S3 address of the model's archive."""
        url = self.model["PrimaryContainer"].get("ModelDataUrl")
        return None if url is None else str(url)

    def fits(self, instance_type: str) -> None:
        """Refuse a change between CPU and GPU: the copy keeps image and driver. Raises TemporaryError."""
        live, known = self.config["InstanceType"], instances()
        if {live, instance_type} <= set(known):
            has, wants = known[live].device, known[instance_type].device
            if has != wants:
                raise TemporaryError(
                    f"{instance_type}: is {wants}, and the live variant's image, on {live}, is for "
                    f"{has}; deploy it on {instance_type} first"
                )


def live_variant(client: Any, live: str, variant: str | None = None) -> LiveVariant:
    """`variant` None: the first. Raises TemporaryError."""
    try:
        described = client.describe_endpoint(EndpointName=live)
        endpoint_config = client.describe_endpoint_config(
            EndpointConfigName=described["EndpointConfigName"]
        )
        variants = {
            production["VariantName"]: production
            for production in endpoint_config["ProductionVariants"]
        }
        chosen = variants.get(variant or next(iter(variants)))
        if chosen is None:
            allowed = ", ".join(variants)
            raise TemporaryError(f"{live}: has no variant {variant!r}; allowed: {allowed}")
        if "ModelName" not in chosen:
            raise TemporaryError(
                f"{live}: hosts inference components, which are not copied: measure a model "
                "of them in an environment of its own"
            )
        model = client.describe_model(ModelName=chosen["ModelName"])
    except (BotoCoreError, ClientError) as error:
        raise TemporaryError(
            f"{live}: cannot be copied: {error}; deploy it first, or look at the "
            "credentials: `aws sts get-caller-identity`"
        ) from None
    if "InstanceType" not in chosen or "PrimaryContainer" not in model:
        if "InstancePools" in chosen:
            problem = "has instance_pools: measure one of its types in an environment of its own"
            raise TemporaryError(f"{live}: {problem}")
        raise TemporaryError(f"{live}: only one container on instances can be copied")
    return LiveVariant(
        model={key: model[key] for key in _MODEL_KEYS if key in model},
        config={key: chosen[key] for key in _VARIANT_KEYS if key in chosen},
        metrics=endpoint_config.get("MetricsConfig", _NO_METRICS_CONFIG),
    )
