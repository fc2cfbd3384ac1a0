"""Convert a deployed endpoint to the keys of an environment file; list what the keys lack.

The functions have no side effects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from infra.parameters.endpoint import RetentionDays
from infra.parameters.environment import Environment
from infra.parameters.placement import Placement, list_variant_placements
from infra.parameters.table import KmsKeyArn
from infra.policy.container import IMAGE_DEFAULTS
from infra.policy.derived_settings import Choice
from infra.policy.sizing import find_default_wait
from model_packaging.refusal import PackagingError
from servable.init.adoption.expressed_alarms import convert_alarms, convert_rollout
from servable.init.adoption.expressed_model import ExpressedModel, convert_model
from servable.init.adoption.expressed_scaling import ExpressedScaling
from servable.init.adoption.live_fields import Effect, LiveFields, NotCarried
from servable.init.adoption.live_picture import (
    STACK_TAG,
    Described,
    LivePicture,
    is_capturing,
    is_detailed_by_default,
    iterate_variants,
)

_IDENTITY = dict.fromkeys(
    ("EndpointName", "EndpointArn", "EndpointStatus", "EndpointConfigName", "EndpointConfigArn",
     "CreationTime", "LastModifiedTime", "FailureReason", "ResponseMetadata",
     "PendingDeploymentSummary")
)  # fmt: skip
# The configuration has them; DescribeEndpoint repeats what runs.
_REPEATED = dict.fromkeys(
    ("ProductionVariants", "ShadowProductionVariants", "DataCaptureConfig", "AsyncInferenceConfig",
     "LastDeploymentConfig", "MetricsConfig", "ExplainerConfig")
)  # fmt: skip
_OWN_BUCKET = (
    "objects go to a bucket of the retained stack ENV/data from then on; what is there stays"
)


@dataclass(frozen=True, kw_only=True)
class Expressed:
    """The keys of an environment file, and the list of everything that they don't express."""

    tables: dict[str, Any]
    not_carried: tuple[NotCarried, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    """Folder that the file names to the address in S3 of what has to lie there."""


def convert_live_endpoint(picture: LivePicture, *, endpoint_name: str | None = None) -> Expressed:
    """Return the environment file's keys for a deployed endpoint, configuration, or model.

    `endpoint_name`: the name of the new endpoint; default: the deployed endpoint's. Raises
    `PackagingError` for an endpoint that no environment file can describe.
    """
    config = picture.config
    if any(not variant.get("ModelName") for variant, _ in iterate_variants(config)):
        name = str(picture.endpoint.get("EndpointName") or config["EndpointConfigName"])
        problem = "hosts inference components: its variants name no model"
        remedy = "Servable cannot adopt those; adopt an endpoint whose variants name models"
        raise PackagingError(Path(name), problem, remedy)
    return _Expression(picture).convert(endpoint_name)


class _Expression:
    def __init__(self, picture: LivePicture) -> None:
        self._picture = picture
        self._listed: list[NotCarried] = [
            NotCarried(where=what, value=None, reason=f"could not be read: {why}", effect="lost")
            for what, why in picture.unread.items()
        ]
        self._models: dict[str, dict[str, Any]] = {}
        self._tables_of: dict[str, ExpressedModel] = {}
        self._networks: list[Mapping[str, list[str]]] = []
        self._step_alarms: set[str] = set()
        self._sources: dict[str, str] = {}
        live = picture.endpoint
        self._running = {variant["VariantName"]: variant for variant, _ in iterate_variants(live)}
        self._name = str(live.get("EndpointName", ""))

    def convert(self, endpoint_name: str | None) -> Expressed:
        picture = self._picture
        known = _IDENTITY | {"EnableNetworkIsolation": False}
        config = LiveFields("endpoint configuration", picture.config, known=known)
        variants = {
            str(variant["VariantName"]): self._convert_variant(variant, shadow=shadow)
            for variant, shadow in iterate_variants(picture.config)
        }
        config.take("ProductionVariants"), config.take("ShadowProductionVariants")
        if not variants:  # a model alone
            (name,) = picture.models
            variants["primary"] = self._convert_model(name, None)
        without = picture.config.get("EndpointConfigName") or next(iter(picture.models))
        tables: dict[str, Any] = {
            "account": picture.account,
            "region": picture.region,
            "endpoint": {"name": endpoint_name or self._name or without},
            "models": self._models,
            "variants": variants,
        }
        self._share_role(tables)
        self._convert_network(tables)
        self._convert_endpoint(tables, config)
        self._convert_storage(tables, config)
        self._convert_metrics(tables, config.take("MetricsConfig"))
        self._convert_alarms_and_rollout(tables, variants)
        self._convert_tags(tables)
        self._listed += config.list_not_carried({})
        live = LiveFields("endpoint", picture.endpoint, known=_IDENTITY | _REPEATED)
        self._listed += live.list_not_carried({})
        self._write_defaults(tables)
        return Expressed(tables=tables, not_carried=tuple(self._listed), sources=self._sources)

    def _convert_model(self, name: str, instance_type: str | None) -> dict[str, Any]:
        """Return a variant's keys for its model; the model's own table is added to the file."""
        model = self._tables_of.get(name)
        if model is None:
            taken = self._models
            model = convert_model(self._picture, name, instance_type=instance_type, taken=taken)
            sources = {**self._sources, **model.sources}
            served = _describe_served(model.name, model.table, sources)
            twin = next(
                (
                    key
                    for key, table in taken.items()
                    if _describe_served(key, table, sources) == served
                ),
                None,
            )
            if twin is None:
                self._models |= model.models
                self._sources = sources
            else:  # another live model with the same archive, image and role
                model = replace(model, models={twin: model.table})
            self._tables_of[name] = model
            self._listed += model.not_carried
            self._networks.append(model.network)
        table: dict[str, Any] = {"model": model.name}
        for key, value in (("environment", model.variables), ("container", model.container)):
            if value:
                table[key] = dict(value)
        return table

    def _convert_variant(self, variant: Described, *, shadow: bool) -> dict[str, Any]:
        name = variant["VariantName"]
        fields = LiveFields(f"variant {name}", variant, known={"VariantName": None})
        instance_type = fields.take("InstanceType")
        table = self._convert_model(
            fields.take("ModelName"), instance_type or _find_preferred_type(variant)
        )
        table |= {"instance_type": instance_type} if instance_type else {}
        if shadow:
            table["shadow"] = True
        running = self._running.get(name, {})
        weight = float(1.0 if (given := fields.take("InitialVariantWeight")) is None else given)
        table["weight"] = float(running.get("DesiredWeight", weight))
        if table["weight"] != weight:
            reason = "a different weight is in force; the file has that one"
            self._note_not_carried(
                f"variant {name}: InitialVariantWeight", weight, reason, "changed"
            )
        scaling = ExpressedScaling(self._picture, self._name, name)
        self._listed += scaling.not_carried
        self._step_alarms |= scaling.step_alarms
        if (serverless := fields.take("ServerlessConfig")) is not None:
            table["serverless"] = _convert_serverless(serverless, scaling)
        else:
            self._convert_instances(table, fields, running, scaling)
        self._convert_pools(table, fields)
        for key, live in _SAME.items():
            if (value := fields.take(live)) is not None:
                table[key] = value
        if routing := fields.take("RoutingConfig", "RoutingStrategy"):
            table["routing"] = routing.lower()
        if dumps := fields.take("CoreDumpConfig"):
            uri = str(dumps["DestinationS3Uri"])
            table["core_dumps"] = {"uri": f"{uri.removesuffix('/')}/"}
            if not uri.endswith("/"):
                where = f"variant {name}: CoreDumpConfig.DestinationS3Uri"
                self._note_not_carried(
                    where, uri, "the file's is a folder, and ends with a slash", "changed"
                )
            if key_id := dumps.get("KmsKeyId"):
                table["core_dumps"]["kms_key"] = key_id
        if scaling.table is not None:
            table["scaling"] = scaling.table
        self._listed += fields.list_not_carried({})
        return table

    def _convert_instances(
        self,
        table: dict[str, Any],
        fields: LiveFields,
        running: Described,
        scaling: ExpressedScaling,
    ) -> None:
        initial = int(fields.take("InitialInstanceCount") or 1)
        if scaling.table is not None and scaling.bounds is not None:
            table["min_instances"], table["max_instances"] = scaling.bounds
            if initial != 1:
                table["initial_instances"] = initial
            return
        count = int(
            running.get("DesiredInstanceCount") or running.get("CurrentInstanceCount") or initial
        )
        table["min_instances"] = count
        if count != initial:
            reason = "a different number of instances runs; the file has that one"
            where = f"variant {running['VariantName']}: InitialInstanceCount"
            self._note_not_carried(where, initial, reason, "changed")

    def _convert_pools(self, table: dict[str, Any], fields: LiveFields) -> None:
        pools = fields.take("InstancePools")
        if not pools:
            return
        table["instance_pools"] = []
        for pool in sorted(pools, key=lambda each: int(each["Priority"])):
            entry: dict[str, Any] = {"instance_type": pool["InstanceType"]}
            if override := pool.get("ModelNameOverride"):
                other = self._convert_model(override, pool["InstanceType"])
                own = table.get("container", {})
                differs = {
                    key: value
                    for key, value in other.get("container", {}).items()
                    if own.get(key) != value
                }
                if differs:
                    entry["container"] = differs
                if other["model"] != table["model"]:
                    self._models.pop(other["model"])
                    reason = "its archive, image, or role differs from the variant's model's"
                    where = f"instance type {pool['InstanceType']}: ModelNameOverride"
                    self._note_not_carried(where, override, reason, "lost")
            table["instance_pools"].append(entry)

    def _note_not_carried(self, where: str, value: object, reason: str, effect: Effect) -> None:
        self._listed.append(NotCarried(where=where, value=value, reason=reason, effect=effect))

    def _share_role(self, tables: dict[str, Any]) -> None:
        """Write a role that all models share once, as endpoint.execution_role."""
        roles = {table.get("execution_role") for table in self._models.values()}
        served = [table for table in self._models.values() if "execution_role" in table]
        for arn, stack in self._picture.stacks_of_roles.items():
            reason = (
                f"the role belongs to stack {stack} and is deleted with it; before that, take "
                "execution_role out of the file, so that this stack creates its own role"
            )
            self._note_not_carried("execution role", arn, reason, "changed")
        if len({table["execution_role"] for table in served}) == 1 and len(roles - {None}) == 1:
            for table in served:
                tables["endpoint"]["execution_role"] = table.pop("execution_role")

    def _convert_network(self, tables: dict[str, Any]) -> None:
        if self._networks and self._networks[0]:
            tables["network"] = dict(self._networks[0])
        if any(network != self._networks[0] for network in self._networks):
            where = "models: VpcConfig"
            reason = "[network] applies to all models; the file has the first model's"
            self._note_not_carried(where, str(self._networks), reason, "changed")

    def _convert_endpoint(self, tables: dict[str, Any], config: LiveFields) -> None:
        endpoint, group = tables["endpoint"], self._picture.log_group
        if key := config.take("KmsKeyId"):
            endpoint["volume_kms_key"] = key
        if _is_key_arn(key := group.get("kmsKeyId")):
            endpoint["log_kms_key"] = key
        days = group.get("retentionInDays")
        if days in get_args(RetentionDays):
            endpoint["log_retention_days"] = days
        elif group:
            reason = "logs are kept for 30 days by default; to change it, set endpoint.log_retention_days"
            kept = "for ever" if days is None else f"{days} days"
            self._note_not_carried(
                f"log group {group['logGroupName']}: retention", kept, reason, "changed"
            )

    def _convert_metrics(self, tables: dict[str, Any], live: Described | None) -> None:
        names = {
            "detailed_observability": "EnableDetailedObservability",
            "enhanced_metrics": "EnableEnhancedMetrics",
            "publish_seconds": "MetricPublishFrequencyInSeconds",
        }
        table = {key: live[name] for key, name in names.items() if name in live} if live else {}
        if self._picture.config and "detailed_observability" not in table:
            by_day = is_detailed_by_default(self._picture.config)
            served = tables["variants"].values()
            if by_day and not any("serverless" in variant for variant in served):
                table["detailed_observability"] = True
            elif by_day is not False:
                reason = (
                    "SageMaker's own default depends on the day of creation; the file's is false"
                )
                where = "endpoint configuration: MetricsConfig.EnableDetailedObservability"
                self._note_not_carried(where, "not set", reason, "changed")
        if table:
            tables["metrics"] = table

    def _convert_storage(self, tables: dict[str, Any], config: LiveFields) -> None:
        capture = config.take("DataCaptureConfig")
        if is_capturing(self._picture.config):
            tables["capture"] = self._convert_capture(LiveFields("data capture", capture, known={
                "EnableCapture": True, "CaptureContentTypeHeader": {
                    "CsvContentTypes": ["text/csv"],
                    "JsonContentTypes": ["application/json", "application/jsonlines"]}}))  # fmt: skip
        elif capture is not None:
            reason = "EnableCapture is false, so that nothing is captured, as without [capture]"
            self._note_not_carried(
                "DataCaptureConfig", capture.get("DestinationS3Uri"), reason, "none"
            )
        if (queue := config.take("AsyncInferenceConfig")) is not None:
            tables["asynchronous"] = self._convert_asynchronous(
                LiveFields("asynchronous inference", queue, known={})
            )

    def _convert_capture(self, fields: LiveFields) -> dict[str, Any]:
        modes = [option["CaptureMode"] for option in fields.take("CaptureOptions") or []]
        both = "InputAndOutput" in modes
        table: dict[str, Any] = {
            "sample_percent": fields.take("InitialSamplingPercentage"),
            "requests": both or "Input" in modes,
            "answers": both or "Output" in modes,
        }
        if not table["sample_percent"]:
            table["sample_percent"] = 1
            where = "data capture: InitialSamplingPercentage"
            reason = "capture.sample_percent is at least 1; remove [capture] to capture nothing"
            self._note_not_carried(where, 0, reason, "changed")
        self._add_kms_key(table, fields.take("KmsKeyId"), "data capture: KmsKeyId")
        if self._picture.config["DataCaptureConfig"].get("CaptureContentTypeHeader") is None:
            reason = (
                "not set live, so that SageMaker keeps bodies in base64; CSV and JSON become text"
            )
            where = "data capture: CaptureContentTypeHeader"
            self._note_not_carried(where, None, reason, "changed")
        self._listed += fields.list_not_carried({
            "DestinationS3Uri": (_OWN_BUCKET, "changed"),
            "CaptureContentTypeHeader": ("text/csv and JSON are kept as text", "changed"),
        })  # fmt: skip
        return table

    def _convert_asynchronous(self, fields: LiveFields) -> dict[str, Any]:
        table: dict[str, Any] = {}
        most = fields.take("ClientConfig", "MaxConcurrentInvocationsPerInstance")
        if most is not None:
            table["max_concurrent_invocations_per_instance"] = most
        self._add_kms_key(
            table, fields.take("OutputConfig", "KmsKeyId"), "asynchronous inference: KmsKeyId"
        )
        self._listed += fields.list_not_carried({"OutputConfig": (
            f"{_OWN_BUCKET}, and topics of the stack notify: asynchronous.notify_success, notify_error",
            "changed")})  # fmt: skip
        return table

    def _add_kms_key(self, table: dict[str, Any], key: str | None, where: str) -> None:
        if _is_key_arn(key):
            table["kms_key"] = key
        else:
            reason = "kms_key takes the ARN of a key; without one the stack ENV/data makes a key"
            self._note_not_carried(where, key or "not set", reason, "changed")

    def _convert_alarms_and_rollout(
        self, tables: dict[str, Any], variants: Mapping[str, dict[str, Any]]
    ) -> None:
        types = {name: variant.get("instance_type") for name, variant in variants.items()}
        alarms = convert_alarms(self._picture, types, self._listed, scaling=self._step_alarms)
        if alarms:
            tables["alarms"] = alarms
        if deployment := self._picture.endpoint.get("LastDeploymentConfig"):
            rollout = convert_rollout(deployment, self._listed)
            if rollout is not None:
                tables["rollout"] = rollout

    def _convert_tags(self, tables: dict[str, Any]) -> None:
        own = {}
        for key, value in self._picture.tags.items():
            if key.startswith("aws:"):
                reason = "AWS's own tag"
                if key == STACK_TAG:
                    reason += (
                        ": that stack owns the endpoint, and must let it go before it is imported"
                    )
                self._note_not_carried(f"tag {key}", value, reason, "none")
            else:
                own[key] = value
        if own:
            tables["tags"] = own
        for resource, tags in self._picture.other_tags.items():
            for key, value in tags.items():
                if not key.startswith("aws:") and own.get(key) != value:
                    reason = "[tags] applies to all resources of the stack; it has the endpoint's"
                    self._note_not_carried(f"{resource}: tag {key}", value, reason, "lost")

    def _write_defaults(self, tables: dict[str, Any]) -> None:
        """Write the values that the endpoint omits and that Servable would otherwise choose.

        Choices that no key can prevent are listed as not carried over.
        """
        for table in tables["variants"].values():
            if self._models[table["model"]].get("multi_model") is None:
                container = table.setdefault("container", {})
                container.setdefault("tfs_processes", IMAGE_DEFAULTS.tfs_processes)
        environment = self._validate_environment(tables)
        for name, table in tables["variants"].items():
            for placed in list_variant_placements(environment, name):
                if placed.pool:
                    continue
                self._write_container_defaults(table, placed)
                if placed.routing.origin == "derived" and placed.kind.has_instances:
                    # https://aws.amazon.com/blogs/machine-learning/minimize-real-time-inference-latency-by-using-amazon-sagemaker-routing-strategies/
                    table["routing"] = "random"
                choices: list[Choice[Any]] = [placed.driver, *placed.timeouts.values()]
                for choice in choices:
                    if choice.origin == "derived" and placed.kind.has_instances:
                        reason = (
                            f"not set live; {choice.name} becomes {choice.value}: {choice.reason}"
                        )
                        self._note_not_carried(
                            f"variant {name}: {choice.name}", None, reason, "changed"
                        )

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
                    self._note_not_carried(
                        f"key {'.'.join(map(str, key))}", error["input"], reason, "lost"
                    )
        raise AssertionError("a pass removed nothing")

    def _write_container_defaults(self, table: dict[str, Any], placed: Placement) -> None:
        container = table.setdefault("container", {})
        vcpus = placed.instance.vcpus
        for choice in placed.derived.choices:
            if choice.name == "batching" and "batching" in container:
                # Both are the number of vCPUs in the image.
                defaults = {"batch_threads": vcpus, "max_enqueued_batches": vcpus}
                container["batching"] = defaults | container["batching"]
            elif choice.origin == "derived":
                processes = int(container.get("tfs_processes", 1))
                value = getattr(IMAGE_DEFAULTS, choice.name)
                if choice.name == "wait_time_seconds":
                    value = find_default_wait(placed.tensorflow, processes=processes)
                container[choice.name] = value


def _describe_served(
    name: str, table: Mapping[str, Any], sources: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a table [models.NAME] serves, independent of its name."""
    served = {**table, "saved_model": sources.get(table.get("saved_model", ""))}
    if "artifact" in table:
        served["artifact"] = {"default_model": name, **table["artifact"]}
    return served


_SAME = {
    "volume_gb": "VolumeSizeInGB",
    "download_timeout_seconds": "ModelDataDownloadTimeoutInSeconds",
    "startup_timeout_seconds": "ContainerStartupHealthCheckTimeoutInSeconds",
    "inference_ami": "InferenceAmiVersion",
    "ssm_access": "EnableSSMAccess",
    "provision_timeout_seconds": "VariantInstanceProvisionTimeoutInSeconds",
}


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


def _find_preferred_type(variant: Described) -> str | None:
    pools = sorted(variant.get("InstancePools") or [], key=lambda each: int(each["Priority"]))
    return pools[0]["InstanceType"] if pools else None


def _convert_serverless(live: Described, scaling: ExpressedScaling) -> dict[str, Any]:
    table = {"memory_mib": live["MemorySizeInMB"], "max_concurrency": live["MaxConcurrency"]}
    if (provisioned := live.get("ProvisionedConcurrency")) is not None:
        table["provisioned_concurrency"] = provisioned
    if scaling.bounds is not None:
        table["provisioned_concurrency"], table["max_provisioned_concurrency"] = scaling.bounds
    return table


def _is_key_arn(key: str | None) -> bool:
    try:
        return bool(TypeAdapter(KmsKeyArn).validate_python(key))
    except ValidationError:
        return False
