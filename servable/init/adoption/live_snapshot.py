"""Take a snapshot of a deployed endpoint: the responses of AWS's Describe calls."""

import datetime
import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore import xform_name

from infra.catalog import images
from infra.parameters.finding import suggest_name
from infra.policy.sizing import BYTES_PER_GIB
from model_packaging.refusal import PackagingError
from model_packaging.verification import verify
from servable.project.account import Account, AwsError, choose_remedy, fetch_or_none

Described = Mapping[str, Any]
# CloudFormation adds it to the resources that it creates:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-resource-tags.html
STACK_TAG = "aws:cloudformation:stack-name"
# The image unpacks into /opt/ml/model, and names a model after the folder of its versions.
AT_ROOT = "model"
NEWEST = images.list_versions()[-1]
STARTS_GUNICORN = ("code/inference.py", "code/lib", "code/requirements.txt")
_ARNS = ("EndpointArn", "EndpointConfigArn", "ModelArn")
# Field of the snapshot, Describe operation in words, key of its response.
_SCALING = (
    ("targets", "scalable targets", "ScalableTargets"),
    ("policies", "scaling policies", "ScalingPolicies"),
    ("scheduled", "scheduled actions", "ScheduledActions"),
)


@dataclass(frozen=True, kw_only=True)
class LiveArchive:
    """An archive in S3 that a deployed model serves."""

    sha256: str
    size_bytes: int
    size_gib: float
    """Size of its files, rounded up to a thousandth."""
    models: Mapping[str, Sequence[int]]
    """Model to its versions, as the container names them."""
    problems: Sequence[str] = ()
    """Reasons why the container would not serve it, each a whole sentence."""


@dataclass(frozen=True, kw_only=True)
class LiveSnapshot:
    """A snapshot of one endpoint, or of a configuration or a model without one.

    Fields of resources that don't exist are empty.
    """

    account: str
    region: str
    endpoint: Described = field(default_factory=dict)
    config: Described = field(default_factory=dict)
    models: Mapping[str, Described] = field(default_factory=dict)
    packages: Mapping[str, Described] = field(default_factory=dict)
    """Model packages, by ARN."""
    archives: Mapping[str, LiveArchive] = field(default_factory=dict)
    """By S3 URI."""
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Prefix of a multi-model endpoint, or of uncompressed files, to the names of the objects below it."""
    targets: Sequence[Described] = ()
    policies: Sequence[Described] = ()
    scheduled: Sequence[Described] = ()
    alarms: Sequence[Described] = ()
    composites: Sequence[Described] = ()
    """Composite alarms on the states of these alarms."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the endpoint, or of the configuration or model that is read without one."""
    other_tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Tags of its configuration and models, by words for the resource."""
    log_group: Described = field(default_factory=dict)
    stacks_of_roles: Mapping[str, str] = field(default_factory=dict)
    """ARN of an execution role to the stack that created it."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Each resource or list that couldn't be read, to the reason."""

    def find_package_container(self, container: Described) -> Described:
        """Return the container of the model package that a model's container names, or {}."""
        return find_container(self.packages.get(container.get("ModelPackageName", ""), {}))


def read_live_snapshot(
    account: Account, kind: str, name: str, *, archives: bool = True
) -> LiveSnapshot:
    """Read the deployed resources.

    `kind`: endpoint, config, or model. `archives`: download the archives to compute their hashes.
    Raises `PackagingError` if the resource doesn't exist or can't be read.
    """
    try:
        return _Reader(account).read_snapshot(kind, name, archives=archives)
    except AwsError as wrong:
        remedy = choose_remedy(wrong, "check the credentials, Region, and network")
        raise PackagingError(Path(name), f"cannot be read: {wrong}", remedy) from None


class _Reader:
    def __init__(self, account: Account) -> None:
        self._account = account
        self._sagemaker = account.client("sagemaker")
        self._unread: dict[str, str] = {}

    def read_snapshot(self, kind: str, name: str, *, archives: bool) -> LiveSnapshot:
        endpoint = self._describe("Endpoint", name) if kind == "endpoint" else {}
        config: Described = {}
        if kind != "model":
            of_endpoint = endpoint.get("EndpointConfigName", name)
            config = self._describe("EndpointConfig", of_endpoint)
        names = [name] if kind == "model" else dict.fromkeys(iterate_model_names(config))
        models = {each: self._describe("Model", each) for each in names}
        containers = [find_container(model) for model in models.values()]
        packages = {
            arn: self._sagemaker.describe_model_package(ModelPackageName=arn)
            for container in containers
            if (arn := container.get("ModelPackageName"))
        }
        holders = [*containers, *map(find_container, packages.values())]
        uris = [uri for uri in dict.fromkeys(map(find_data_uri, holders)) if uri]
        packed = [uri for uri in uris if uri.endswith(".tar.gz")]
        beneath = {"endpoint configuration": config} if endpoint else {}
        if config:
            beneath |= {f"model {each}": described for each, described in models.items()}
        version = find_image_version(containers)
        return LiveSnapshot(
            account=self._account.number,
            region=self._account.region,
            endpoint=endpoint,
            config=config,
            models=models,
            packages=packages,
            archives={uri: self._read_archive(uri, version) for uri in packed if archives},
            prefixes={uri: self._list_names_below(uri) for uri in uris if uri not in packed},
            tags=self._list_tags(endpoint or config or models[name]),
            other_tags={what: self._list_tags(described) for what, described in beneath.items()},
            stacks_of_roles=self._find_role_stacks(models),
            unread=self._unread,
            **(self._read_endpoint_resources(name) if endpoint else {}),
        )

    def _describe(self, kind: str, name: str) -> Described:
        call, field_name = xform_name(kind), f"{kind}Name"
        operation = getattr(self._sagemaker, f"describe_{call}")
        described: Described | None = fetch_or_none(operation, **{field_name: name})
        if described is None:
            pages = self._account.iterate_items("sagemaker", f"list_{call}s", f"{kind}s")
            remedy = suggest_name(name, [each[field_name] for each in pages])
            there = f"account {self._account.number}, {self._account.region}"
            raise PackagingError(Path(name), f"no {kind} with this name in {there}", remedy)
        return described

    def _list(self, what: str, *operation: str, **parameters: Any) -> list[Any]:
        """Return all items of a paginated operation, or [] if AWS returns an error.

        The error is recorded under `what`, so that [] isn't mistaken for missing resources.
        """
        try:
            return list(self._account.iterate_items(*operation, **parameters))
        except AwsError as wrong:
            self._unread[what] = str(wrong)
            return []

    def _read_endpoint_resources(self, endpoint: str) -> dict[str, Any]:
        """Return the scaling, the alarms, and the log group of an endpoint."""
        read: dict[str, Any] = {}
        resource = f"endpoint/{endpoint}/variant/".lower()
        for field_name, what, key in _SCALING:
            if field_name == "targets" or read["targets"]:
                listed = self._list(what, "application-autoscaling",
                                    f"describe_{what.replace(' ', '_')}", key,
                                    ServiceNamespace="sagemaker")  # fmt: skip
                # Application Auto Scaling keeps the name as it was registered, SageMaker in any case.
                read[field_name] = [
                    each for each in listed if each["ResourceId"].lower().startswith(resource)
                ]
        listed = self._list("alarms", "cloudwatch", "describe_alarms", "MetricAlarms")
        read["alarms"] = [alarm for alarm in listed if _is_watching(alarm, endpoint)]
        if read["alarms"]:
            read["composites"] = self._list_composites(read["alarms"])
        name = f"/aws/sagemaker/Endpoints/{endpoint}"
        groups = self._list("log group", "logs", "describe_log_groups", "logGroups",
                            logGroupNamePrefix=name)  # fmt: skip
        read["log_group"] = {group["logGroupName"]: group for group in groups}.get(name, {})
        return read

    def _list_composites(self, alarms: Sequence[Described]) -> list[Described]:
        """Return the composite alarms that depend on `alarms`.

        DescribeAlarms returns composite alarms only on request.
        """
        named = "|".join(re.escape(alarm["AlarmName"]) for alarm in alarms)
        listed = self._list("composite alarms", "cloudwatch", "describe_alarms", "CompositeAlarms",
                            AlarmTypes=["CompositeAlarm"])  # fmt: skip
        # ALARM(name), ALARM("name"), ALARM(arn:…:name)
        rule = re.compile(rf"""[(:"']({named})["')]""")
        return [each for each in listed if rule.search(each["AlarmRule"])]

    def _list_tags(self, described: Described) -> dict[str, str]:
        arn = next(described[key] for key in _ARNS if key in described)
        tags = self._list("tags", "sagemaker", "list_tags", "Tags", ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for tag in tags}

    def _find_role_stacks(self, models: Mapping[str, Described]) -> dict[str, str]:
        stacks: dict[str, str] = {}
        for arn in dict.fromkeys(each.get("ExecutionRoleArn", "") for each in models.values()):
            name = arn.rpartition("/")[2]
            try:
                role = self._account.client("iam").get_role(RoleName=name)["Role"]
            except AwsError as wrong:
                self._unread[f"role {name}"] = str(wrong)
                continue
            tags = {tag["Key"]: tag["Value"] for tag in role.get("Tags", [])}
            if STACK_TAG in tags:
                stacks[arn] = tags[STACK_TAG]
        return stacks

    def _list_names_below(self, prefix: str) -> list[str]:
        bucket, _, key = prefix.removeprefix("s3://").partition("/")
        listed = self._list(prefix, "s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=key)
        return [each["Key"].removeprefix(key) for each in listed]

    def _read_archive(self, uri: str, tensorflow: str) -> LiveArchive:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        with tempfile.TemporaryDirectory(prefix="servable-archive-") as folder:
            file = Path(folder, "model.tar.gz")
            try:
                self._account.client("s3").download_file(bucket, key, str(file))
            except AwsError as wrong:
                remedy = "check your credentials (s3:GetObject, and kms:Decrypt of its key)"
                raise PackagingError(Path(uri), f"cannot be read: {wrong}", remedy) from None
            modules = images.find_modules(tensorflow) or images.find_modules(NEWEST)
            assert modules is not None  # those of the newest image are known
            try:
                verified = verify(file, python=modules.python, provided=modules.modules)
            except PackagingError as refusal:
                raise PackagingError(Path(uri), refusal.problem, refusal.remedy) from None
            models: dict[str, list[int]] = {}
            for model, version, _ in verified.versions:
                models.setdefault(model or AT_ROOT, []).append(version)
            unpacked = sum(member.bytes for member in verified.members)
            return LiveArchive(
                sha256=verified.sha256,
                size_bytes=file.stat().st_size,
                size_gib=math.ceil(unpacked / BYTES_PER_GIB * 1000) / 1000,
                models=models,
                problems=[text.replace(f"{file}: ", "") for text in verified.problems],
            )


def iterate_variants(config: Described) -> Iterator[tuple[Described, bool]]:
    """Yield (variant, whether it is a shadow) for each variant of a configuration."""
    for shadow, key in ((False, "ProductionVariants"), (True, "ShadowProductionVariants")):
        for variant in config.get(key) or []:
            yield variant, shadow


def is_capturing(config: Described) -> bool:
    """Return whether a configuration captures data; without EnableCapture it does.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DataCaptureConfig.html
    (2026-11-28)
    """
    capture = config.get("DataCaptureConfig")
    return bool(capture and capture.get("EnableCapture", True))


def infer_detailed_default(config: Described) -> bool | None:
    """Return whether EnableDetailedObservability is on if a configuration doesn't state it.

    None: not known. Source:
    https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-detailed-observability-getting-started.html
    (2026-11-28)
    """
    created: datetime.datetime | None = config.get("CreationTime")
    return None if created is None else created.date() > datetime.date(2026, 6, 17)


def iterate_model_names(config: Described) -> Iterator[str]:
    """Yield the model names of every variant and instance type, with repetitions."""
    for variant, _ in iterate_variants(config):
        overrides = (pool.get("ModelNameOverride") for pool in variant.get("InstancePools") or [])
        yield from filter(None, (variant.get("ModelName"), *overrides))


def find_container(described: Described) -> Described:
    """Return the (first) container of a DescribeModel or DescribeModelPackage response."""
    several = described.get("InferenceSpecification", described).get("Containers") or [{}]
    container: Described = described.get("PrimaryContainer") or several[0]
    return container


# SageMaker takes the https address of an object too, and CDK's alpha L2 writes it:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html (both styles)
_HTTPS = re.compile(
    r"https://(?:(?P<host>[a-z0-9][a-z0-9.-]+)\.)?s3(?:[.-][a-z0-9-]+)?\.amazonaws\.com(?:\.cn)?/(?P<path>.+)"
)


def find_data_uri(container: Described) -> str | None:
    """Return the S3 URI of a container's archive or of the prefix of its files.

    An https URL of an S3 object is converted to an S3 URI. None: the container has no data.
    """
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    url: str | None = container.get("ModelDataUrl") or source.get("S3Uri")
    if url is not None and (match := _HTTPS.fullmatch(url)):
        return "s3://" + "/".join(filter(None, (match["host"], match["path"])))
    return url


def parse_image_version(image: str) -> str | None:
    """Return the TensorFlow version in an image's tag, or None if the catalog doesn't have it."""
    tag = image.rpartition("/")[2].partition(":")[2]
    version = ".".join(tag.split("-")[0].split(".")[:2])
    return version if version in images.list_versions() else None


def find_image_version(containers: Iterable[Described]) -> str:
    """Return the version of the first image that has one, or the newest version."""
    versions = (parse_image_version(str(each.get("Image", ""))) for each in containers)
    return next(filter(None, versions), NEWEST)


def _is_watching(alarm: Described, endpoint: str) -> bool:
    queries = [query.get("MetricStat", {}).get("Metric", {}) for query in alarm.get("Metrics", [])]
    dimensions = [each for metric in (alarm, *queries) for each in metric.get("Dimensions", [])]
    return {"Name": "EndpointName", "Value": endpoint} in dimensions
