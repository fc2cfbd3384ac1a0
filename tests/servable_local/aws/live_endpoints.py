"""Endpoints as people make them with boto3: no template, no construct of ours."""

import importlib
import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from tests.checkouts import ROOT
from tests.conftest import RANKER
from tests.servable_local.aws.boto_members import named, scalable, tagged, tracking, until
from tests.servable_local.aws.local_account import TRUST, Account

NAME = "ranker"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312"
GPU_IMAGE = IMAGE.replace("-cpu-", "-gpu-")
Change = Callable[["LiveEndpoint"], Any]


def archive(*, root: str = "", files: Mapping[str, bytes] | None = None) -> bytes:
    """A model.tar.gz of the example's SavedModel below `root`, and of further files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(RANKER, arcname=root or ".")
        for name, content in (files or {}).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


ARCHIVE = archive()


class LiveEndpoint:
    """Requests for one endpoint, to be changed before `make` sends them."""

    def __init__(self, account: Account, body: bytes = ARCHIVE) -> None:
        self.account = account
        self.uri = account.put_archive(body, "run-7/model.tar.gz")
        self.role = f"arn:aws:iam::{account.number}:role/sagemaker"
        account.client("iam").create_role(RoleName="sagemaker", AssumeRolePolicyDocument=TRUST)
        self.container: dict[str, Any] = {"Image": IMAGE, "ModelDataUrl": self.uri}
        self.model: dict[str, Any] = {}
        self.variant: dict[str, Any] = {
            "VariantName": "AllTraffic",
            "ModelName": "ranker-2026-11-20-10-15-00",
            "InstanceType": "ml.c5.xlarge",
            "InitialInstanceCount": 1,
            "InitialVariantWeight": 1.0,
        }
        self.config: dict[str, Any] = {}
        self.endpoint: dict[str, Any] = {}
        self.after: list[Callable[[], Any]] = []
        self.made = False

    def make(self) -> None:
        """Makes everything by boto3, unless the case has made it otherwise."""
        if self.made:
            return
        sagemaker = self.account.client("sagemaker")
        self.create_model(self.variant["ModelName"])
        sagemaker.create_endpoint_config(
            EndpointConfigName="config", ProductionVariants=[self.variant], **self.config
        )
        sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName="config", **self.endpoint)
        self.serves()
        for step in self.after:
            step()

    def serves(self) -> None:
        """Waits until it does."""
        describe = self.account.client("sagemaker").describe_endpoint
        until(lambda: describe(EndpointName=NAME)["EndpointStatus"] == "InService")

    def create_model(self, name: str, **container: Any) -> None:
        given = {"ExecutionRoleArn": self.role, "PrimaryContainer": self.container | container}
        self.account.client("sagemaker").create_model(ModelName=name, **given, **self.model)

    def scale(self, *policies: tuple[str, dict[str, Any]], least: int = 1, most: int = 4,
              counts: str = "InstanceCount") -> None:  # fmt: skip
        """Registers a target and puts policies, as (type, configuration)."""
        common = scalable(self.variant["VariantName"], counts)
        scaling = self.account.client("application-autoscaling")

        def register() -> None:
            scaling.register_scalable_target(**common, MinCapacity=least, MaxCapacity=most)
            for number, (kind, configuration) in enumerate(policies):
                key = "StepScaling" if kind == "StepScaling" else "TargetTrackingScaling"
                policy = {"PolicyName": f"by-hand-{number}", "PolicyType": kind}
                configured = {f"{key}PolicyConfiguration": configuration}
                answer = scaling.put_scaling_policy(**common, **policy, **configured)
                if kind == "StepScaling":
                    self.alarm("steps", "InvocationsPerInstance", "Sum", 600.0,
                               ComparisonOperator="GreaterThanOrEqualToThreshold",
                               AlarmActions=[answer["PolicyARN"]])  # fmt: skip

        self.after.append(register)

    def schedule(self, at: str, **action: int) -> None:
        put = self.account.client("application-autoscaling").put_scheduled_action
        given = scalable(self.variant["VariantName"]) | {"ScheduledActionName": "morning"}
        self.after.append(lambda: put(**given, Schedule=at, ScalableTargetAction=action))

    def alarm(self, name: str, metric: str, statistic: str, threshold: float, **more: Any) -> None:
        extended, used = statistic.startswith("p"), metric.endswith("Utilization")
        self.account.client("cloudwatch").put_metric_alarm(**{
            "AlarmName": name, "MetricName": metric,
            "Namespace": "/aws/sagemaker/Endpoints" if used else "AWS/SageMaker",
            "ExtendedStatistic" if extended else "Statistic": statistic,
            "Dimensions": named(EndpointName=NAME, VariantName=self.variant["VariantName"]),
            "Period": 60, "EvaluationPeriods": 3, "Threshold": threshold,
            "ComparisonOperator": "GreaterThanThreshold", "TreatMissingData": "notBreaching",
            **more})  # fmt: skip

    def path(self, below: str) -> str:
        """An s3:// URI of the account's bucket."""
        return f"{self.uri.rpartition('/run-7')[0]}/{below}"


def _set(part: str, **fields: Any) -> Change:
    return lambda live: getattr(live, part).update(fields)


def _variables(**variables: str) -> Change:
    return _set("container", Environment=variables)


def _tracked(target: float, metric: str = "InvocationsPerInstance", **more: Any) -> Any:
    return "TargetTrackingScaling", tracking(target, metric, **more)


def _tracked_own(target: float, metric: dict[str, Any], **more: Any) -> Any:
    given = {"TargetValue": target, "CustomizedMetricSpecification": metric}
    return "TargetTrackingScaling", given | more


def _stepped(*steps: dict[str, int], kind: str = "ChangeInCapacity", **more: Any) -> Change:
    given = {"AdjustmentType": kind, "StepAdjustments": steps, **more}
    return lambda live: live.scale(("StepScaling", given))


TRACKED = _tracked(1000.0)


def _serverless(live: LiveEndpoint, **more: int) -> None:
    for key in ("InstanceType", "InitialInstanceCount"):
        del live.variant[key]
    live.variant["ServerlessConfig"] = {"MemorySizeInMB": 2048, "MaxConcurrency": 10, **more}


def _provisioned(live: LiveEndpoint) -> None:
    _serverless(live, ProvisionedConcurrency=2)
    used = _tracked(0.7, "ProvisionedConcurrencyUtilization")
    live.scale(used, least=2, most=6, counts="ProvisionedConcurrency")


def _asynchronous(live: LiveEndpoint) -> None:
    paths = {"S3OutputPath": live.path("out/"), "S3FailurePath": live.path("failed/")}
    most = {"MaxConcurrentInvocationsPerInstance": 4}
    live.config["AsyncInferenceConfig"] = {"ClientConfig": most, "OutputConfig": paths}


def _backlog(live: LiveEndpoint) -> None:
    _asynchronous(live)
    metric = {"MetricName": "ApproximateBacklogSizePerInstance", "Namespace": "AWS/SageMaker",
              "Statistic": "Average", "Dimensions": named(EndpointName=NAME)}  # fmt: skip
    live.scale(_tracked_own(5.0, metric, ScaleInCooldown=600, ScaleOutCooldown=120))


def _multi_model(live: LiveEndpoint) -> None:
    live.account.put_archive(ARCHIVE, "many/first.tar.gz")
    live.account.put_archive(archive(files={"code/inference.py": CODE}), "many/second.tar.gz")
    live.container |= {"Mode": "MultiModel", "ModelDataUrl": live.path("many/")}


def _data_source(live: LiveEndpoint, uri: str, kind: str, compression: str) -> None:
    del live.container["ModelDataUrl"]
    source = {"S3Uri": uri, "S3DataType": kind, "CompressionType": compression}
    live.container["ModelDataSource"] = {"S3DataSource": source}


def _uncompressed(below: str, **more: bytes) -> Change:
    """The example's files under a prefix, each as it is; `more`: further files."""

    def change(live: LiveEndpoint) -> None:
        for file in (each for each in RANKER.rglob("*") if each.is_file()):
            key = f"files/{below}{file.relative_to(RANKER).as_posix()}"
            live.account.put_archive(file.read_bytes(), key)
        for name, content in more.items():
            live.account.put_archive(content, f"files/code/{name}.py")
        _data_source(live, live.path("files/"), "S3Prefix", "None")

    return change


def _two_variants(live: LiveEndpoint) -> None:
    other = live.account.put_archive(archive(files={"note.txt": b"b"}), "run-8/model.tar.gz")
    live.create_model("ranker-b", ModelDataUrl=other)
    second = live.variant | {"VariantName": "Second", "ModelName": "ranker-b",
                             "InitialVariantWeight": 0.25}  # fmt: skip
    sagemaker = live.account.client("sagemaker")

    def both() -> None:
        variants = [live.variant, second]
        sagemaker.create_endpoint_config(EndpointConfigName="both", ProductionVariants=variants)
        sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName="both")
        live.serves()

    live.after.append(both)


def _shadow(live: LiveEndpoint) -> None:
    live.create_model("candidate", Environment={"RANKER_CUTOFF": "0.3"})
    shadow = live.variant | {"VariantName": "candidate", "ModelName": "candidate"}
    live.config["ShadowProductionVariants"] = [shadow]


def _by_cpu(live: LiveEndpoint) -> None:
    of = named(EndpointName=NAME, VariantName="AllTraffic")
    metric = {"MetricName": "CPUUtilization", "Namespace": "/aws/sagemaker/Endpoints",
              "Statistic": "Average", "Dimensions": of}  # fmt: skip
    live.scale(TRACKED, _tracked_own(70.0, metric, DisableScaleIn=True))


def _scheduled(live: LiveEndpoint) -> None:
    live.scale(TRACKED, least=2, most=8)
    live.schedule("cron(0 7 ? * MON-FRI *)", MinCapacity=4)


def _capture(live: LiveEndpoint, **more: Any) -> None:
    live.config["DataCaptureConfig"] = {
        "EnableCapture": True, "InitialSamplingPercentage": 20,
        "DestinationS3Uri": live.path("captured"),
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}], **more,
    }  # fmt: skip


def _vpc(live: LiveEndpoint) -> None:
    ec2 = live.account.client("ec2")
    subnets = ec2.describe_subnets()["Subnets"]
    (group,) = ec2.describe_security_groups(
        Filters=[{"Name": "vpc-id", "Values": [subnets[0]["VpcId"]]}])["SecurityGroups"]  # fmt: skip
    ids = [subnet["SubnetId"] for subnet in subnets[:2]]
    live.model["VpcConfig"] = {"Subnets": ids, "SecurityGroupIds": [group["GroupId"]]}


def _keys(live: LiveEndpoint) -> None:
    key = live.account.client("kms").create_key()["KeyMetadata"]["Arn"]
    live.config["KmsKeyId"] = key
    _capture(live, KmsKeyId=key)


def _alarms(live: LiveEndpoint) -> None:
    live.after += [
        lambda: live.alarm("slow", "ModelLatency", "p99", 150_000.0),
        lambda: live.alarm("errors", "Invocation5XXErrors", "Average", 0.02),
        lambda: live.alarm("busy", "CPUUtilization", "Average", 320.0, EvaluationPeriods=10),
        lambda: live.alarm("many", "Invocations", "Sum", 90_000.0),
    ]


def _several_in_one(live: LiveEndpoint) -> None:
    live.uri = live.account.put_archive(archive(root="half_plus_two"), "run-9/model.tar.gz")
    live.container["ModelDataUrl"] = live.uri


def _gpu(live: LiveEndpoint) -> None:
    live.container["Image"] = GPU_IMAGE
    ami = "al2023-ami-sagemaker-inference-gpu-4-1"
    live.variant |= {"InstanceType": "ml.g4dn.xlarge", "InferenceAmiVersion": ami}


def _pools(live: LiveEndpoint, **second: str) -> None:
    del live.variant["InstanceType"]
    live.variant["InstancePools"] = [
        {"InstanceType": "ml.c6i.xlarge", "Priority": 1},
        {"InstanceType": "ml.c5.xlarge", "Priority": 2, **second},
    ]


def _pools_of_two_models(live: LiveEndpoint) -> None:
    live.create_model("wider", Environment={"OMP_NUM_THREADS": "8"})
    _pools(live, ModelNameOverride="wider")


def _package(live: LiveEndpoint) -> None:
    variables = {"FEATURES": "v1", "OMP_NUM_THREADS": "2"}
    arn = live.account.register_version({**live.container, "Environment": variables})
    live.container = {"ModelPackageName": arn, "Environment": {"FEATURES": "v2"}}


def _tags_beneath(live: LiveEndpoint) -> None:
    live.model["Tags"] = [{"Key": "model-owner", "Value": "ranking"}]
    live.config["Tags"] = tagged(cost="42")


def _composite(live: LiveEndpoint) -> None:
    cloudwatch = live.account.client("cloudwatch")
    live.after += [
        lambda: live.alarm("slow", "ModelLatency", "p95", 90_000.0),
        lambda: cloudwatch.put_composite_alarm(AlarmName="page", AlarmRule="ALARM(slow)"),
    ]


def _more_weight(live: LiveEndpoint) -> None:
    change = {"VariantName": "AllTraffic", "DesiredInstanceCount": 3}
    live.after.append(lambda: live.account.change_capacities(NAME, **change))


def _by_sdk_v3(live: LiveEndpoint) -> None:
    """The block of docs/adopting.md, as a shell with this account's variables runs it."""
    sdk = importlib.import_module("sagemaker.core.utils.utils").SageMakerClient
    block = next(each for each in page_blocks("python") if "sagemaker.core.resources" in each)
    text = block.replace("123456789012", live.account.number)
    bucket = live.uri.removeprefix("s3://").partition("/")[0]
    variables = live.account.aws.environment(account=live.account.number)
    sdk._instances.clear()  # one for each process, with whatever session was first
    try:
        with mock.patch.dict(os.environ, variables):
            exec(compile(text.replace("team-models", bucket), "adopting.md", "exec"), {})
    finally:
        sdk._instances.clear()
    live.made = True


def page_blocks(language: str, heading: str = "") -> list[str]:
    """Return the blocks in `language` of docs/adopting.md, or of its section under `heading`."""
    page = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")
    section = re.split(r"^#+ ", page.partition(f"# {heading}\n")[2], flags=re.MULTILINE)[0]
    text = section if heading else page
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def _by_alpha_l2(live: LiveEndpoint) -> None:
    """What aws-cdk.aws-sagemaker-alpha 2.275.0a0 synthesises: Model, EndpointConfig, Endpoint, scaling on
    30 requests per second, an alarm on ModelLatency and one on 5xx. Left out: AmazonSageMakerFullAccess,
    which the local AWS does not have."""
    text = Path(__file__).with_name("template_of_alpha_l2.json").read_text()
    bucket = live.uri.removeprefix("s3://").partition("/")[0]
    text = text.replace("BUCKET", bucket).replace("123456789012", live.account.number)
    assert live.account.deploy(json.loads(text), "old") == "CREATE_COMPLETE"
    live.made = True


CODE = b"""
def input_handler(data, context):
    return data.read()


def output_handler(answer, context):
    return answer.content, context.accept_header
"""
CANARY = {
    "TrafficRoutingConfiguration": {
        "Type": "CANARY", "WaitIntervalInSeconds": 600,
        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10}},
    "TerminationWaitInSeconds": 300,
}  # fmt: skip

LIVE: dict[str, Change] = {
    "plain": lambda live: None,
    "set by hand since": _more_weight,
    "own count, timeouts, volume and routing": _set(
        "variant", InitialInstanceCount=3, VolumeSizeInGB=50, ModelDataDownloadTimeoutInSeconds=900,
        ContainerStartupHealthCheckTimeoutInSeconds=300,
        RoutingConfig={"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}),
    "container variables and batching": _variables(
        SAGEMAKER_TFS_INSTANCE_COUNT="2", SAGEMAKER_GUNICORN_WORKERS="4", OMP_NUM_THREADS="2",
        SAGEMAKER_TFS_ENABLE_BATCHING="true", SAGEMAKER_TFS_MAX_BATCH_SIZE="16"),
    "own variables and a secret": _variables(
        FEATURE_TABLE="features-v2", DB_PASSWORD="hunter2hunter2", API_TOKEN="xyzzy"),
    "variables of the SDK": _variables(
        SAGEMAKER_PROGRAM="inference.py", SAGEMAKER_SUBMIT_DIRECTORY="/opt/ml/model/code",
        SAGEMAKER_CONTAINER_LOG_LEVEL="20", SAGEMAKER_REGION="us-east-1"),
    "a default model by name": _variables(SAGEMAKER_TFS_DEFAULT_MODEL_NAME="model"),
    "a model with an underscore": _several_in_one,
    "another image": lambda live: live.container.update(
        Image=f"{live.account.number}.dkr.ecr.us-east-1.amazonaws.com/serving:2.20-ours"),
    "an archive by ModelDataSource": lambda live: _data_source(live, live.uri, "S3Object", "Gzip"),
    "network isolation": _set("model", EnableNetworkIsolation=True),
    "gpu": _gpu,
    "pools": _pools,
    "pools of two models": _pools_of_two_models,
    "a version of the registry": _package,
    "an empty variable": _variables(FEATURES="", TEXT='a "quoted" \\ line\nand\ttab'),
    "core dumps": lambda live: live.variant.update(
        CoreDumpConfig={"DestinationS3Uri": live.path("dumps")}),
    "serverless": _serverless,
    "serverless with provisioned concurrency": _provisioned,
    "asynchronous": _asynchronous,
    "asynchronous by backlog": _backlog,
    "multi-model": _multi_model,
    "uncompressed": _uncompressed(""),
    "uncompressed, with a name and code": _uncompressed("export/ranker/", inference=CODE),
    "two variants": _two_variants,
    "shadow": _shadow,
    "tracking": lambda live: live.scale(TRACKED),
    "concurrency": lambda live: live.scale(_tracked(
        4.0, "ConcurrentRequestsPerModelHighResolution", ScaleInCooldown=180, ScaleOutCooldown=30)),
    "steps": _stepped(
        {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 300, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": 300, "ScalingAdjustment": 3},
        Cooldown=60, MetricAggregationType="Average"),
    "steps in percent": _stepped(
        {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 50}, kind="PercentChangeInCapacity"),
    "steps against their alarm": _stepped({"MetricIntervalLowerBound": 0, "ScalingAdjustment": -1}),
    "tracking beside the processor": _by_cpu,
    "schedule": _scheduled,
    "capture": _capture,
    "capture that is off": lambda live: _capture(live, EnableCapture=False),
    "vpc": _vpc,
    "keys": _keys,
    "tags": _set("endpoint", Tags=tagged(team="ranking", cost="42")),
    "tags of the model and the configuration": _tags_beneath,
    "alarms": _alarms,
    "a composite alarm": _composite,
    "canary": _set("endpoint", DeploymentConfig={"BlueGreenUpdatePolicy": CANARY}),
    "by SDK v3": _by_sdk_v3,
    "by CDK's alpha L2": _by_alpha_l2,
    "metrics": _set("config", MetricsConfig={
        "EnableEnhancedMetrics": True, "MetricPublishFrequencyInSeconds": 30}),
}  # fmt: skip
