"""Convert a deployed endpoint to an environment file's keys, and list what they lack. Writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from infra.parameters.endpoint import RetentionDays
from infra.parameters.environment import Environment
from infra.parameters.placement import Placement, list_variant_placements
from infra.policy.container import IMAGE_DEFAULTS
from infra.policy.derived_settings import Choice
from infra.policy.sizing import find_default_wait
from model_packaging.refusal import PackagingError
from servable.init.adoption.expressed_model import ExpressedModel
from servable.init.adoption.expressed_scaling import ExpressedScaling, convert_capacity
from servable.init.adoption.expressed_tables import (
    KEY_ARN,
    convert_alarms,
    convert_rollout,
    convert_storage,
    convert_tags,
)
from servable.init.adoption.live_fields import Listed, LiveFields, NotCarried, accepts
from servable.init.adoption.live_snapshot import (
    Described,
    LiveSnapshot,
    infer_detailed_default,
    iterate_variants,
)

_IDENTITY: Mapping[str, Any] = dict.fromkeys(
    ("EndpointName", "EndpointArn", "EndpointStatus", "EndpointConfigName", "EndpointConfigArn",
     "CreationTime", "LastModifiedTime", "FailureReason", "ResponseMetadata",
     "PendingDeploymentSummary", "ProductionVariants", "ShadowProductionVariants")
) | {"EnableNetworkIsolation": False}  # fmt: skip
# The configuration has them; DescribeEndpoint repeats what runs.
_REPEATED: Mapping[str, Any] = dict.fromkeys(
    ("DataCaptureConfig", "AsyncInferenceConfig", "LastDeploymentConfig", "MetricsConfig",
     "ExplainerConfig")
)  # fmt: skip
# Key -> the field that has the same value.
_VARIANT = {
    "volume_gb": "VolumeSizeInGB",
    "download_timeout_seconds": "ModelDataDownloadTimeoutInSeconds",
    "startup_timeout_seconds": "ContainerStartupHealthCheckTimeoutInSeconds",
    "inference_ami": "InferenceAmiVersion",
    "ssm_access": "EnableSSMAccess",
    "provision_timeout_seconds": "VariantInstanceProvisionTimeoutInSeconds",
    "routing": "RoutingConfig.RoutingStrategy",
}
_CORE_DUMPS = {"uri": "CoreDumpConfig.DestinationS3Uri", "kms_key": "CoreDumpConfig.KmsKeyId"}
_BY_DATE = "SageMaker's default depends on the creation date; the file's default is false"
_METRICS = {
    "detailed_observability": "MetricsConfig.EnableDetailedObservability",
    "enhanced_metrics": "MetricsConfig.EnableEnhancedMetrics",
    "publish_seconds": "MetricsConfig.MetricPublishFrequencyInSeconds",
}


@dataclass(frozen=True, kw_only=True)
class Expressed:
    """The keys of an environment file, and the list of everything that they don't express."""

    tables: dict[str, Any]
    not_carried: Sequence[NotCarried]
    sources: Mapping[str, str]
    """Folder that the file names -> S3 URI of the folder's content."""


def convert_live_endpoint(snapshot: LiveSnapshot, *, endpoint_name: str | None = None) -> Expressed:
    """Return the environment file's keys for a deployed endpoint, configuration, or model.

    `endpoint_name`: the name of the new endpoint; default: the deployed endpoint's. Raises
    `PackagingError` for an endpoint that no environment file can describe.
    """
    config = snapshot.config
    if any(not variant.get("ModelName") for variant, _ in iterate_variants(config)):
        name = str(snapshot.endpoint.get("EndpointName") or config["EndpointConfigName"])
        problem = "hosts inference components, so its variants have no model"
        remedy = "adopt an endpoint whose variants have models; Servable supports only those"
        raise PackagingError(Path(name), problem, remedy)
    return _Conversion(snapshot).convert(endpoint_name)


class _Conversion:
    """The conversion of one snapshot: tables that grow, and the list of what they lack."""

    def __init__(self, snapshot: LiveSnapshot) -> None:
        self._snapshot = snapshot
        self._listed = Listed()
        for what, why in snapshot.unread.items():
            self._listed.note(what, None, f"cannot be read: {why}", "lost")
        self._converted: dict[str, ExpressedModel] = {}
        """By the deployed model's name."""
        self._step_alarms: set[str] = set()
        live = snapshot.endpoint
        self._running = {variant["VariantName"]: variant for variant, _ in iterate_variants(live)}
        self._name = str(live.get("EndpointName", ""))

    def convert(self, endpoint_name: str | None) -> Expressed:
        snapshot, listed = self._snapshot, self._listed
        config = LiveFields("endpoint configuration", snapshot.config, listed, _IDENTITY)
        variants = {
            str(variant["VariantName"]): self._convert_variant(variant, shadow=shadow)
            for variant, shadow in iterate_variants(snapshot.config)
        }
        if not variants:  # a model alone
            (name,) = snapshot.models
            variants["primary"] = self._convert_model(name, None)
        without = snapshot.config.get("EndpointConfigName") or next(iter(snapshot.models))
        served = {variant["model"] for variant in variants.values()}
        used = [model for model in self._converted.values() if model.name in served]
        tables: dict[str, Any] = {
            "account": snapshot.account,
            "region": snapshot.region,
            "endpoint": {"name": endpoint_name or self._name or without},
            "models": {name: table for model in used for name, table in model.models.items()},
            "variants": variants,
        }
        self._share_role(tables)
        network, *others = (model.network for model in self._converted.values())
        if network:
            tables["network"] = network
        if any(other != network for other in others):
            reason = "[network] applies to all models; the file has the first model's network"
            listed.note("models: VpcConfig", str([network, *others]), reason)
        self._convert_endpoint(tables["endpoint"], config)
        tables |= convert_storage(snapshot, config, listed)
        self._convert_metrics(tables, config)
        types = {name: variant.get("instance_type") for name, variant in variants.items()}
        if alarms := convert_alarms(snapshot, types, listed, self._step_alarms):
            tables["alarms"] = alarms
        deployment = snapshot.endpoint.get("LastDeploymentConfig")
        if deployment and (rollout := convert_rollout(deployment, listed)) is not None:
            tables["rollout"] = rollout
        if tags := convert_tags(snapshot, listed):
            tables["tags"] = tags
        config.note_rest()
        LiveFields("endpoint", snapshot.endpoint, listed, {**_IDENTITY, **_REPEATED}).note_rest()
        self._write_defaults(tables)
        sources = {folder: uri for model in used for folder, uri in model.sources.items()}
        return Expressed(tables=tables, not_carried=listed, sources=sources)

    def _convert_model(self, name: str, instance_type: str | None) -> dict[str, Any]:
        """Return a variant's keys for its model."""
        model = self._converted.get(name)
        if model is None:
            others = [*self._converted.values()]
            taken = {key for other in others for key in other.models}
            model = ExpressedModel(self._snapshot, name, instance_type, taken)
            self._listed += model.not_carried
            for other in others:  # with the same archive, image, and role
                if other.identity == model.identity:
                    model.models, model.sources = other.models, other.sources
            self._converted[name] = model
        table: dict[str, Any] = {"model": model.name}
        for key, value in (("environment", model.variables), ("container", model.container)):
            if value:
                table[key] = dict(value)
        return table

    def _convert_variant(self, variant: Described, *, shadow: bool) -> dict[str, Any]:
        name = variant["VariantName"]
        fields = LiveFields(f"variant {name}", variant, self._listed, {"VariantName": None})
        pools = sorted(fields.take("InstancePools") or [], key=lambda each: int(each["Priority"]))
        instance_type = fields.take("InstanceType")
        preferred = instance_type or (pools[0]["InstanceType"] if pools else None)
        table = self._convert_model(fields.take("ModelName"), preferred)
        table |= {"instance_type": instance_type} if instance_type else {}
        if shadow:
            table["shadow"] = True
        running = self._running.get(name, {})
        given = fields.take("InitialVariantWeight")
        weight = 1.0 if given is None else float(given)
        table["weight"] = float(running.get("DesiredWeight", weight))
        if table["weight"] != weight:
            reason = "the current weight differs; the file has the current weight"
            fields.note("InitialVariantWeight", weight, reason)
        scaling = ExpressedScaling(self._snapshot, self._name, name)
        self._listed += scaling.not_carried
        self._step_alarms |= scaling.step_alarms
        table |= convert_capacity(fields, running, scaling)
        if pools:
            table["instance_pools"] = [self._convert_pool(table, pool) for pool in pools]
        table |= fields.take_keys(_VARIANT)
        if "routing" in table:
            table["routing"] = table["routing"].lower()
        if dumps := fields.take_keys(_CORE_DUMPS):
            uri = str(dumps["uri"])
            if not uri.endswith("/"):
                reason = "the file needs a prefix that ends with a slash"
                fields.note("CoreDumpConfig.DestinationS3Uri", uri, reason)
            table["core_dumps"] = dumps | {"uri": f"{uri.removesuffix('/')}/"}
        if scaling.table is not None:
            table["scaling"] = scaling.table
        fields.note_rest()
        return table

    def _convert_pool(self, table: Mapping[str, Any], pool: Described) -> dict[str, Any]:
        """Return an entry of instance_pools; `table`: the variant's table."""
        instance_type = pool["InstanceType"]
        entry: dict[str, Any] = {"instance_type": instance_type}
        if override := pool.get("ModelNameOverride"):
            other = self._convert_model(override, instance_type)
            settings, own = other.get("container", {}), table.get("container", {})
            differing = {key: value for key, value in settings.items() if own.get(key) != value}
            if differing:
                entry["container"] = differing
            if other["model"] != table["model"]:
                reason = "its archive, image, or role differs from that of the variant's model"
                where = f"instance type {instance_type}: ModelNameOverride"
                self._listed.note(where, override, reason, "lost")
        return entry

    def _share_role(self, tables: dict[str, Any]) -> None:
        """Write a role that all models share once, as endpoint.execution_role."""
        for arn, stack in self._snapshot.stacks_of_roles.items():
            reason = (
                f"the role belongs to stack {stack} and is deleted with it; before deleting it, remove "
                "execution_role from the file, so that this stack creates its own role"
            )
            self._listed.note("execution role", arn, reason)
        served = [table for table in tables["models"].values() if "execution_role" in table]
        if len({table["execution_role"] for table in served}) == 1:
            for table in served:
                tables["endpoint"]["execution_role"] = table.pop("execution_role")

    def _convert_endpoint(self, endpoint: dict[str, Any], config: LiveFields) -> None:
        group = self._snapshot.log_group
        endpoint |= config.take_keys({"volume_kms_key": "KmsKeyId"})
        if accepts(KEY_ARN, group.get("kmsKeyId")):
            endpoint["log_kms_key"] = group["kmsKeyId"]
        days = group.get("retentionInDays")
        if days in get_args(RetentionDays):
            endpoint["log_retention_days"] = days
        elif group:
            reason = "logs are kept for 30 days by default; to change it, set endpoint.log_retention_days"
            kept = "for ever" if days is None else f"{days} days"
            self._listed.note(f"log group {group['logGroupName']}: retention", kept, reason)

    def _convert_metrics(self, tables: dict[str, Any], config: LiveFields) -> None:
        table = config.take_keys(_METRICS)
        if self._snapshot.config and "detailed_observability" not in table:
            by_day = infer_detailed_default(self._snapshot.config)
            served = tables["variants"].values()
            if by_day and not any("serverless" in variant for variant in served):
                table["detailed_observability"] = True
            elif by_day is not False:
                where = "endpoint configuration: MetricsConfig.EnableDetailedObservability"
                self._listed.note(where, "not set", _BY_DATE)
        if table:
            tables["metrics"] = table

    def _write_defaults(self, tables: dict[str, Any]) -> None:
        """Write the values that the endpoint omits and that Servable would otherwise choose.

        Choices that no key can prevent are listed as not carried over.
        """
        for table in tables["variants"].values():
            if "multi_model" not in tables["models"][table["model"]]:
                container = table.setdefault("container", {})
                container.setdefault("tfs_processes", IMAGE_DEFAULTS.tfs_processes)
        environment = self._validate_environment(tables)
        for name, table in tables["variants"].items():
            for placed in list_variant_placements(environment, name):
                if placed.pool:
                    continue
                _write_container_defaults(table, placed)
                if not placed.kind.has_instances:
                    continue
                if placed.routing.origin == "derived":
                    # https://aws.amazon.com/blogs/machine-learning/minimize-real-time-inference-latency-by-using-amazon-sagemaker-routing-strategies/
                    table["routing"] = "random"
                choices: list[Choice[Any]] = [placed.driver, *placed.timeouts.values()]
                for choice in choices:
                    if choice.origin == "derived":
                        reason = (
                            f"not set, so {choice.name} becomes {choice.value}: {choice.reason}"
                        )
                        self._listed.note(f"variant {name}: {choice.name}", None, reason)

    def _validate_environment(self, tables: dict[str, Any]) -> Environment:
        """Return the tables as an environment.

        Values that a key doesn't accept are moved to the list of what isn't carried over. Raises
        `PackagingError` if a required key is missing.
        """
        for _ in range(20):  # each pass removes something; no endpoint needs twenty
            try:
                return Environment.model_validate(tables)
            except ValidationError as wrong:
                for error in wrong.errors():
                    missing = error["type"] == "missing"
                    # Without a key that it needs, a table is removed as a whole.
                    key = error["loc"][:-1] if missing else error["loc"]
                    reason = f"the key {'.'.join(map(str, error['loc']))} rejects this value: {error['msg']}"
                    if len(key) < 2 or (len(key) == 2 and key[0] in ("models", "variants")):
                        remedy = "write the file by hand"
                        raise PackagingError(Path(self._name or "live"), reason, remedy) from None
                    _remove_key(tables, key)
                    where = f"key {'.'.join(map(str, key))}"
                    self._listed.note(where, error["input"], reason, "lost")
        raise AssertionError("a pass removed nothing")


def _write_container_defaults(table: dict[str, Any], placed: Placement) -> None:
    container = table.setdefault("container", {})
    vcpus = placed.instance.vcpus
    for choice in placed.derived.choices:
        if choice.name == "batching" and "batching" in container:
            # Both are the number of vCPUs in the image.
            defaults = {"batch_threads": vcpus, "max_enqueued_batches": vcpus}
            container["batching"] = defaults | container["batching"]
        elif choice.origin == "derived":
            value = getattr(IMAGE_DEFAULTS, choice.name)
            if choice.name == "wait_time_seconds":
                processes = int(container.get("tfs_processes", 1))
                value = find_default_wait(placed.tensorflow, processes=processes)
            container[choice.name] = value


def _remove_key(tables: dict[str, Any], key: Sequence[int | str]) -> None:
    """Remove the innermost table, or value of a table, on the path to a key."""
    inside: Any = tables
    for part in key:
        if isinstance(inside, dict):
            if part not in inside:
                return
            holder, name = inside, part
        inside = inside[part]
    del holder[name]
