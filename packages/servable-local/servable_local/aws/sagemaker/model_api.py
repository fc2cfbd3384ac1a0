"""SageMaker's operations on models, endpoint configurations, and transform jobs."""

import json
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from operator import methodcaller
from typing import Any, ClassVar

from botocore.exceptions import ClientError
from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker.responses import SageMakerResponse

from servable_local.aws.errors import SageMakerError
from servable_local.aws.loopback import Regions
from servable_local.aws.sagemaker.described import list_page
from servable_local.aws.sagemaker.hosting import RegionalHosting, Register, StoredDefinition
from servable_local.aws.sagemaker.model_data import check_model_data, find_data_url, merge_package
from servable_local.aws.sagemaker.transform_job import TransformJob

_MOST_MB = 100
_MOST_INSTANCES = 100
# Settings without effect here.
_WITHOUT_EFFECT = ("DataCaptureConfig", "ExperimentConfig")
# Observed: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27); us-east-1 accepts it.
_WITHOUT_ZERO = ("eu-west-3",)
_SERVERLESS_MEMORY_STEP_MB = 1024
_PUBLISH_SECONDS = (10, 30, 60, 120, 180, 240, 300)
_Operation = Callable[[Any], ActionResult]


def check_job_limits(request: dict[str, Any]) -> None:
    """Raise `SageMakerError` for what API_CreateTransformJob.html excludes; the wording is ours.

    Raises NotImplementedError, whose response is 501, for settings without effect here.
    """
    for name in _WITHOUT_EFFECT:
        if name in request:
            raise NotImplementedError(
                f"{name} of CreateTransformJob would have no effect in the local AWS"
            )
    megabytes, concurrent = request.get("MaxPayloadInMB", 6), request.get("MaxConcurrentTransforms")
    if megabytes == 0:
        raise NotImplementedError("the local AWS doesn't support MaxPayloadInMB 0 (a chunked body)")
    if megabytes * (concurrent or 1) > _MOST_MB:
        raise SageMakerError(
            f"MaxConcurrentTransforms * MaxPayloadInMB must not exceed {_MOST_MB}; "
            f"given: {concurrent or 1} * {megabytes}."
        )
    if request["TransformResources"]["InstanceCount"] > _MOST_INSTANCES:
        raise SageMakerError(f"InstanceCount must be at most {_MOST_INSTANCES}.")
    source = request["TransformInput"]["DataSource"].get("S3DataSource", {})
    if source.get("S3DataType") not in ("S3Prefix", "ManifestFile"):
        raise SageMakerError("S3DataType of a transform job must be S3Prefix or ManifestFile.")


def build_operations(
    kind: str,
    register: str,
    member: str,
    describe: Callable[[Any], Mapping[str, Any]] = methodcaller("describe"),
) -> tuple[_Operation, _Operation]:
    """Return the describe and list operations of a kind of resource: `register` of the hosting.

    A list operation's model contains fewer members, and moto leaves out the others.
    """

    def describe_one(api: "ModelApi") -> ActionResult:
        found = getattr(api.hosting, register).find(api._get_param(f"{kind}Name"))
        return ActionResult(describe(found))

    def list_all(api: "ModelApi") -> ActionResult:
        shown = map(describe, list(getattr(api.hosting, register).values()))
        return ActionResult(list_page(api._read_request(), kind, shown, member))

    return describe_one, list_all


def reject_mixed_kinds(request: Mapping[str, Any]) -> None:
    """Raise `SageMakerError` for kinds of variants that SageMaker doesn't combine.

    Source: API_CreateEndpointConfig.html (ShadowProductionVariants), serverless-endpoints.html
    (feature exclusions) and shadow-tests-exclusions.html of SageMaker's documentation.
    """
    variants = request["ProductionVariants"]
    shadows = request.get("ShadowProductionVariants", [])
    if any("ServerlessConfig" in variant for variant in [*variants, *shadows]):
        if len(variants) + len(shadows) > 1:
            raise SageMakerError("A serverless endpoint must have exactly one production variant.")
        for name in ("AsyncInferenceConfig", "DataCaptureConfig"):
            if name in request:
                raise SageMakerError(f"{name} is not supported with ServerlessConfig.")
        if {"InstanceType", "InstancePools", "InitialInstanceCount"} & set(variants[0]):
            raise SageMakerError("Pass ServerlessConfig or an instance type, not both.")
        _check_serverless_size(variants[0]["ServerlessConfig"])
    if shadows and (len(variants), len(shadows)) != (1, 1):
        raise SageMakerError(
            "With ShadowProductionVariants, each of the two lists must have exactly one variant."
        )
    if shadows and "AsyncInferenceConfig" in request:
        raise SageMakerError("AsyncInferenceConfig is not supported with shadow variants.")


def _check_serverless_size(config: Mapping[str, Any]) -> None:
    """Raise `SageMakerError` for sizes that API_ProductionVariantServerlessConfig.html excludes."""
    memory = config["MemorySizeInMB"]
    if memory % _SERVERLESS_MEMORY_STEP_MB:
        raise SageMakerError(
            f"MemorySizeInMB {memory} isn't a multiple of {_SERVERLESS_MEMORY_STEP_MB}; "
            "valid values: 1024, 2048, 3072, 4096, 5120, 6144."
        )
    provisioned, maximum = config.get("ProvisionedConcurrency", 0), config["MaxConcurrency"]
    if provisioned > maximum:
        problem = f"ProvisionedConcurrency {provisioned} must be at most MaxConcurrency, {maximum}."
        raise SageMakerError(problem)


def check_components(request: Mapping[str, Any], region: str) -> None:
    """Raise `SageMakerError` for invalid variants without a model, or managed scaling.

    Sources: https://github.com/hashicorp/terraform-provider-aws/pull/45926 (2025, a model and
    managed scaling), https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27, a minimum of
    zero in eu-west-3, no role); the other wording is ours.
    """
    variants = request["ProductionVariants"]
    empty = [each for each in variants if not _has_model(each)]
    for variant in variants:
        scaling = variant.get("ManagedInstanceScaling", {})
        if scaling and _has_model(variant):
            problem = "ManagedInstanceScaling is only supported for inference component endpoints."
            raise SageMakerError(problem)
        if scaling.get("Status") != "ENABLED":
            continue
        least, most = (int(scaling.get(f"{key}InstanceCount", 1)) for key in ("Min", "Max"))
        if not least and region in _WITHOUT_ZERO:
            raise SageMakerError(
                "Min instance count needs to be greater than 0 for enabled managed instance scaling"
            )
        if least > most:
            raise SageMakerError(f"MinInstanceCount {least} exceeds MaxInstanceCount {most}.")
    if not empty:
        return
    if len(empty) < len(variants):
        raise SageMakerError("Either all production variants must have a ModelName, or none.")
    if "ExecutionRoleArn" not in request:
        raise SageMakerError("ExecutionRoleArn is required if no variant has a ModelName.")
    for name in ("AsyncInferenceConfig", "ShadowProductionVariants"):
        if name in request:
            raise SageMakerError(f"{name} is not supported with inference components.")
    if any("ServerlessConfig" in variant for variant in empty):
        raise SageMakerError("A serverless variant must have a ModelName.")


def _has_model(variant: Mapping[str, Any]) -> bool:
    pools = variant.get("InstancePools", [])
    return "ModelName" in variant or any("ModelNameOverride" in pool for pool in pools)


def check_pools(variant: Mapping[str, Any]) -> None:
    """Raise `SageMakerError` for pools that SageMaker rejects; the wording is ours.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html
    (InstancePools replaces InstanceType, 2026-11-22)
    """
    pools = variant.get("InstancePools", [])
    if pools and "InstanceType" in variant:
        raise SageMakerError("Pass InstanceType or InstancePools, not both.")
    for key in ("Priority", "InstanceType"):
        values = [pool[key] for pool in pools]
        if len(set(values)) < len(values):
            raise SageMakerError(f"{key} must differ between InstancePools; given: {values}.")


def check_frequency(request: Mapping[str, Any]) -> None:
    """Raise `SageMakerError` for an interval that API_MetricsConfig.html doesn't list."""
    seconds = request.get("MetricsConfig", {}).get("MetricPublishFrequencyInSeconds", 60)
    if seconds not in _PUBLISH_SECONDS:
        allowed = ", ".join(map(str, _PUBLISH_SECONDS))
        raise SageMakerError(
            f"MetricPublishFrequencyInSeconds {seconds} is not supported; valid values: {allowed}."
        )


def _wrap_in_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_trusting(statement: Mapping[str, Any]) -> bool:
    """Return whether a statement lets SageMaker assume a role.

    SageMaker names its caller arn:aws:sagemaker:REGION:ACCOUNT:*, with a literal asterisk, so the
    full ARN of a model or endpoint in the condition matches nothing. Region and account are not
    compared: environments of other ones are deployed here.
    https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html
    (2026-11-22)
    """
    if "sagemaker.amazonaws.com" not in json.dumps(statement.get("Principal", {})):
        return False
    patterns = statement.get("Condition", {}).get("ArnLike", {}).get("aws:SourceArn")
    return patterns is None or any(
        fnmatchcase("*", pattern.rsplit(":", 1)[-1]) for pattern in _wrap_in_list(patterns)
    )


class ModelApi(SageMakerResponse):
    """The API of models, configurations, and jobs. `hostings` is set when the server is built."""

    hostings: ClassVar[Regions[RegionalHosting]]
    checked = "sagemaker"
    describe_model, list_models = build_operations("Model", "models", "Models")
    describe_endpoint_config, list_endpoint_configs = build_operations(
        "EndpointConfig", "configs", "EndpointConfigs"
    )
    describe_transform_job, list_transform_jobs = build_operations(
        "TransformJob",
        "jobs",
        "TransformJobSummaries",
        lambda job: {"LastModifiedTime": job.modified, **job.describe()},
    )

    @property
    def hosting(self) -> RegionalHosting:
        return self.hostings.provide_service(self.current_account, self.region)

    def _read_request(self) -> dict[str, Any]:
        """Return the parameters of the request."""
        return dict(self.params)

    def _store_tags(self, arn: str, request: dict[str, Any]) -> None:
        self.hosting.tags[arn] = {tag["Key"]: tag["Value"] for tag in request.pop("Tags", [])}

    def create_model(self) -> ActionResult:
        request, here = self._read_request(), self.hosting
        arn = here.models.name_new(request["ModelName"])
        containers = request.get("Containers") or [request.get("PrimaryContainer")]
        if containers == [None]:
            raise SageMakerError("You must provide either PrimaryContainer or Containers.")
        self._check_role(request.get("ExecutionRoleArn"))
        for container in containers:
            if url := find_data_url(merge_package(container, here.aws)):
                check_model_data(url, here.aws)
        return self._add_definition("Model", here.models, arn, request)

    def _add_definition(
        self, kind: str, register: Register[StoredDefinition], arn: str, request: dict[str, Any]
    ) -> ActionResult:
        self._store_tags(arn, request)
        definition = StoredDefinition(kind, arn, request, self.hosting.clock.now())
        register[request[f"{kind}Name"].lower()] = definition
        return ActionResult({f"{kind}Arn": arn})

    def _remove_definition(self, kind: str, register: Register[StoredDefinition]) -> ActionResult:
        name = self._get_param(f"{kind}Name")
        self.hosting.tags.pop(register.find(name).arn, None)
        del register[name.lower()]
        return EmptyResult()

    def _check_role(self, arn: str | None) -> None:
        refusal = (
            f"Could not assume role {arn}. Please ensure that the role exists and allows "
            "principal 'sagemaker.amazonaws.com' to assume the role."
        )
        try:
            name = (arn or "").rsplit("/", 1)[-1]
            role = self.hosting.aws.client("iam").get_role(RoleName=name)["Role"]
        except (ClientError, ValueError):
            raise SageMakerError(refusal) from None
        trust = role["AssumeRolePolicyDocument"]
        if not any(_is_trusting(statement) for statement in _wrap_in_list(trust["Statement"])):
            raise SageMakerError(refusal)

    def delete_model(self) -> ActionResult:
        return self._remove_definition("Model", self.hosting.models)

    def create_model_package(self) -> ActionResult:
        return self._send_package_event(super().create_model_package())

    def update_model_package(self) -> ActionResult:
        return self._send_package_event(super().update_model_package())

    def _send_package_event(self, answer: Any) -> ActionResult:
        """Send an event of the model package, and return the response."""
        self.hosting.send_package_event(answer.result["ModelPackageArn"])
        return ActionResult(answer.result)

    def create_endpoint_config(self) -> ActionResult:
        request, here = self._read_request(), self.hosting
        arn = here.configs.name_new(request["EndpointConfigName"])
        names = [variant["VariantName"] for variant in request["ProductionVariants"]]
        if len(set(names)) < len(names):
            raise SageMakerError(f"Variant names must differ; given: {', '.join(names)}.")
        for variant in request["ProductionVariants"] + request.get("ShadowProductionVariants", []):
            check_pools(variant)
            for definition in (variant, *variant.get("InstancePools", [])):
                if model := definition.get("ModelName") or definition.get("ModelNameOverride"):
                    here.models.find(model)
        reject_mixed_kinds(request)
        check_components(request, here.aws.region)
        if "ExecutionRoleArn" in request:
            self._check_role(request["ExecutionRoleArn"])
        check_frequency(request)
        return self._add_definition("EndpointConfig", here.configs, arn, request)

    def delete_endpoint_config(self) -> ActionResult:
        return self._remove_definition("EndpointConfig", self.hosting.configs)

    def create_transform_job(self) -> ActionResult:
        request, here = self._read_request(), self.hosting
        check_job_limits(request)
        arn = here.jobs.name_new(request["TransformJobName"])
        model = here.models.find(request["ModelName"]).request
        self._store_tags(arn, request)
        try:
            job = TransformJob(request, arn, model, here, here.send_job_event)
        except ValueError as error:
            raise SageMakerError(str(error)) from None
        here.jobs[job.name.lower()] = job
        job.start()
        return ActionResult({"TransformJobArn": arn})

    def stop_transform_job(self) -> ActionResult:
        self.hosting.jobs.find(self._get_param("TransformJobName")).stop()
        return EmptyResult()
