"""Endpoints as people make them with boto3: no template, no construct of ours."""

import importlib
import io
import json
import os
import re
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from tests.checkouts import ROOT
from tests.conftest import RANKER
from tests.servable_local.aws.local_account import TRUST, Account

NAME = "ranker"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312"
GPU_IMAGE = IMAGE.replace("-cpu-", "-gpu-")
Change = Callable[["LiveEndpoint"], None]


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
        sagemaker = self.account.client("sagemaker")
        for _ in range(400):
            if sagemaker.describe_endpoint(EndpointName=NAME)["EndpointStatus"] == "InService":
                break
            time.sleep(0.02)

    def create_model(self, name: str, **container: Any) -> None:
        self.account.client("sagemaker").create_model(
            ModelName=name,
            ExecutionRoleArn=self.role,
            PrimaryContainer=self.container | container,
            **self.model,
        )

    def scale(self, *policies: tuple[str, dict[str, Any]], least: int = 1, most: int = 4,
              counts: str = "InstanceCount") -> None:  # fmt: skip
        """Registers a target and puts policies, as (type, configuration)."""
        common = {
            "ServiceNamespace": "sagemaker",
            "ResourceId": f"endpoint/{NAME}/variant/{self.variant['VariantName']}",
            "ScalableDimension": f"sagemaker:variant:Desired{counts}",
        }
        scaling = self.account.client("application-autoscaling")

        def register() -> None:
            scaling.register_scalable_target(**common, MinCapacity=least, MaxCapacity=most)
            for number, (kind, configuration) in enumerate(policies):
                key = "StepScaling" if kind == "StepScaling" else "TargetTrackingScaling"
                answer = scaling.put_scaling_policy(
                    **common,
                    PolicyName=f"by-hand-{number}",
                    PolicyType=kind,
                    **{f"{key}PolicyConfiguration": configuration},
                )
                if kind == "StepScaling":
                    self.alarm("steps", "InvocationsPerInstance", "Sum", 600.0,
                               ComparisonOperator="GreaterThanOrEqualToThreshold",
                               AlarmActions=[answer["PolicyARN"]])  # fmt: skip

        self.after.append(register)

    def schedule(self, at: str, **action: int) -> None:
        scaling = self.account.client("application-autoscaling")
        self.after.append(
            lambda: scaling.put_scheduled_action(
                ServiceNamespace="sagemaker",
                ResourceId=f"endpoint/{NAME}/variant/{self.variant['VariantName']}",
                ScalableDimension="sagemaker:variant:DesiredInstanceCount",
                ScheduledActionName="morning",
                Schedule=at,
                ScalableTargetAction=action,
            )
        )

    def alarm(self, name: str, metric: str, statistic: str, threshold: float, **more: Any) -> None:
        extended = statistic.startswith("p")
        namespace = (
            "/aws/sagemaker/Endpoints" if metric.endswith("Utilization") else "AWS/SageMaker"
        )
        self.account.client("cloudwatch").put_metric_alarm(**{
            "AlarmName": name, "MetricName": metric, "Namespace": namespace,
            "ExtendedStatistic" if extended else "Statistic": statistic,
            "Dimensions": [{"Name": "EndpointName", "Value": NAME},
                           {"Name": "VariantName", "Value": self.variant["VariantName"]}],
            "Period": 60, "EvaluationPeriods": 3, "Threshold": threshold,
            "ComparisonOperator": "GreaterThanThreshold", "TreatMissingData": "notBreaching",
            **more})  # fmt: skip


TRACKED = ("TargetTrackingScaling", {
    "TargetValue": 1000.0,
    "PredefinedMetricSpecification": {
        "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}})  # fmt: skip


def _variables(**variables: str) -> Change:
    return lambda live: live.container.update(Environment=variables)


def _variant(**fields: Any) -> Change:
    return lambda live: live.variant.update(fields)


def _config(**fields: Any) -> Change:
    return lambda live: live.config.update(fields)


def _deployment(**fields: Any) -> Change:
    return lambda live: live.endpoint.update(DeploymentConfig=fields)


def _serverless(live: LiveEndpoint) -> None:
    for key in ("InstanceType", "InitialInstanceCount"):
        del live.variant[key]
    live.variant["ServerlessConfig"] = {"MemorySizeInMB": 2048, "MaxConcurrency": 10}


def _provisioned(live: LiveEndpoint) -> None:
    _serverless(live)
    live.variant["ServerlessConfig"]["ProvisionedConcurrency"] = 2
    used = {"PredefinedMetricType": "SageMakerVariantProvisionedConcurrencyUtilization"}
    tracked = {"TargetValue": 0.7, "PredefinedMetricSpecification": used}
    live.scale(("TargetTrackingScaling", tracked), least=2, most=6, counts="ProvisionedConcurrency")


def _asynchronous(live: LiveEndpoint) -> None:
    bucket = live.uri.rpartition("/run-7")[0]
    live.config["AsyncInferenceConfig"] = {
        "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 4},
        "OutputConfig": {"S3OutputPath": f"{bucket}/out/", "S3FailurePath": f"{bucket}/failed/"},
    }


def _backlog(live: LiveEndpoint) -> None:
    _asynchronous(live)
    metric = {
        "MetricName": "ApproximateBacklogSizePerInstance", "Namespace": "AWS/SageMaker",
        "Statistic": "Average", "Dimensions": [{"Name": "EndpointName", "Value": NAME}],
    }  # fmt: skip
    live.scale(("TargetTrackingScaling",
                {"TargetValue": 5.0, "CustomizedMetricSpecification": metric,
                 "ScaleInCooldown": 600, "ScaleOutCooldown": 120}))  # fmt: skip


def _multi_model(live: LiveEndpoint) -> None:
    prefix = live.uri.removesuffix("model.tar.gz")
    live.account.put_archive(ARCHIVE, "many/first.tar.gz")
    live.account.put_archive(archive(files={"code/inference.py": CODE}), "many/second.tar.gz")
    live.container |= {"Mode": "MultiModel", "ModelDataUrl": prefix.replace("run-7", "many")}


def _uncompressed(below: str, **more: bytes) -> Change:
    """The example's files under a prefix, each as it is; `more`: further files."""

    def change(live: LiveEndpoint) -> None:
        prefix = live.uri.replace("run-7/model.tar.gz", "files/")
        s3, bucket = live.account.client("s3"), prefix.split("/")[2]
        for file in (each for each in RANKER.rglob("*") if each.is_file()):
            key = f"files/{below}{file.relative_to(RANKER).as_posix()}"
            s3.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
        for name, content in more.items():
            s3.put_object(Bucket=bucket, Key=f"files/code/{name}.py", Body=content)
        del live.container["ModelDataUrl"]
        live.container["ModelDataSource"] = {"S3DataSource": {
            "S3Uri": prefix, "S3DataType": "S3Prefix", "CompressionType": "None"}}  # fmt: skip

    return change


def _two_variants(live: LiveEndpoint) -> None:
    other = live.account.put_archive(archive(files={"note.txt": b"b"}), "run-8/model.tar.gz")
    live.create_model("ranker-b", ModelDataUrl=other)
    second = live.variant | {"VariantName": "Second", "ModelName": "ranker-b",
                             "InitialVariantWeight": 0.25}  # fmt: skip
    sagemaker = live.account.client("sagemaker")
    create = sagemaker.create_endpoint_config

    def both() -> None:
        create(EndpointConfigName="both", ProductionVariants=[live.variant, second])
        sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName="both")
        live.serves()

    live.after.append(both)


def _shadow(live: LiveEndpoint) -> None:
    live.create_model("candidate", Environment={"RANKER_CUTOFF": "0.3"})
    live.config["ShadowProductionVariants"] = [
        live.variant | {"VariantName": "candidate", "ModelName": "candidate"}
    ]


def _steps(live: LiveEndpoint) -> None:
    adjustments = [
        {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 300, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": 300, "ScalingAdjustment": 3},
    ]
    live.scale(("StepScaling", {"AdjustmentType": "ChangeInCapacity", "Cooldown": 60,
                                "MetricAggregationType": "Average",
                                "StepAdjustments": adjustments}))  # fmt: skip


def _percent_steps(live: LiveEndpoint) -> None:
    steps = [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 50}]
    live.scale(("StepScaling", {"AdjustmentType": "PercentChangeInCapacity",
                                "StepAdjustments": steps}))  # fmt: skip


def _concurrency(live: LiveEndpoint) -> None:
    metric = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    live.scale(("TargetTrackingScaling", {
        "TargetValue": 4.0, "ScaleInCooldown": 180, "ScaleOutCooldown": 30,
        "PredefinedMetricSpecification": {"PredefinedMetricType": metric}}))  # fmt: skip


def _by_cpu(live: LiveEndpoint) -> None:
    metric = {
        "MetricName": "CPUUtilization", "Namespace": "/aws/sagemaker/Endpoints",
        "Statistic": "Average", "Dimensions": [
            {"Name": "EndpointName", "Value": NAME},
            {"Name": "VariantName", "Value": "AllTraffic"}],
    }  # fmt: skip
    live.scale(TRACKED, ("TargetTrackingScaling", {
        "TargetValue": 70.0, "DisableScaleIn": True, "CustomizedMetricSpecification": metric}))  # fmt: skip


def _scheduled(live: LiveEndpoint) -> None:
    live.scale(TRACKED, least=2, most=8)
    live.schedule("cron(0 7 ? * MON-FRI *)", MinCapacity=4)


def _capture(live: LiveEndpoint) -> None:
    live.config["DataCaptureConfig"] = {
        "EnableCapture": True, "InitialSamplingPercentage": 20,
        "DestinationS3Uri": live.uri.rpartition("/run-7")[0] + "/captured",
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    }  # fmt: skip


def _vpc(live: LiveEndpoint) -> None:
    ec2 = live.account.client("ec2")
    subnets = ec2.describe_subnets()["Subnets"]
    (group,) = ec2.describe_security_groups(
        Filters=[{"Name": "vpc-id", "Values": [subnets[0]["VpcId"]]}])["SecurityGroups"]  # fmt: skip
    live.model["VpcConfig"] = {
        "Subnets": [subnet["SubnetId"] for subnet in subnets[:2]],
        "SecurityGroupIds": [group["GroupId"]],
    }


def _keys(live: LiveEndpoint) -> None:
    key = live.account.client("kms").create_key()["KeyMetadata"]["Arn"]
    live.config["KmsKeyId"] = key
    _capture(live)
    live.config["DataCaptureConfig"]["KmsKeyId"] = key


def _tags(live: LiveEndpoint) -> None:
    live.endpoint["Tags"] = [{"Key": "team", "Value": "ranking"}, {"Key": "cost", "Value": "42"}]


def _alarms(live: LiveEndpoint) -> None:
    live.after += [
        lambda: live.alarm("slow", "ModelLatency", "p99", 150_000.0),
        lambda: live.alarm("errors", "Invocation5XXErrors", "Average", 0.02),
        lambda: live.alarm("busy", "CPUUtilization", "Average", 320.0, EvaluationPeriods=10),
        lambda: live.alarm("many", "Invocations", "Sum", 90_000.0),
    ]


def _several_in_one(live: LiveEndpoint) -> None:
    body = archive(root="half_plus_two", files={})
    live.uri = live.account.put_archive(body, "run-9/model.tar.gz")
    live.container["ModelDataUrl"] = live.uri


def _gpu(live: LiveEndpoint) -> None:
    live.container["Image"] = GPU_IMAGE
    live.variant |= {
        "InstanceType": "ml.g4dn.xlarge",
        "InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1",
    }


def _pools(live: LiveEndpoint) -> None:
    del live.variant["InstanceType"]
    live.variant["InstancePools"] = [
        {"InstanceType": "ml.c6i.xlarge", "Priority": 1},
        {"InstanceType": "ml.c5.xlarge", "Priority": 2},
    ]


def _pools_of_two_models(live: LiveEndpoint) -> None:
    live.create_model("wider", Environment={"OMP_NUM_THREADS": "8"})
    _pools(live)
    live.variant["InstancePools"][1]["ModelNameOverride"] = "wider"


def _package(live: LiveEndpoint) -> None:
    variables = {"FEATURES": "v1", "OMP_NUM_THREADS": "2"}
    arn = live.account.register_version({**live.container, "Environment": variables})
    live.container = {"ModelPackageName": arn, "Environment": {"FEATURES": "v2"}}


def _steps_down_above(live: LiveEndpoint) -> None:
    steps = [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": -1}]
    live.scale(("StepScaling", {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": steps}))


def _captured_once(live: LiveEndpoint) -> None:
    _capture(live)
    live.config["DataCaptureConfig"]["EnableCapture"] = False


def _core_dumps(live: LiveEndpoint) -> None:
    uri = live.uri.rpartition("/run-7")[0] + "/dumps"
    live.variant["CoreDumpConfig"] = {"DestinationS3Uri": uri}


def _tags_beneath(live: LiveEndpoint) -> None:
    live.model["Tags"] = [{"Key": "model-owner", "Value": "ranking"}]
    live.config["Tags"] = [{"Key": "cost", "Value": "42"}]


def _composite(live: LiveEndpoint) -> None:
    cloudwatch = live.account.client("cloudwatch")
    live.after += [
        lambda: live.alarm("slow", "ModelLatency", "p95", 90_000.0),
        lambda: cloudwatch.put_composite_alarm(AlarmName="page", AlarmRule="ALARM(slow)"),
    ]


def _data_source(live: LiveEndpoint) -> None:
    del live.container["ModelDataUrl"]
    live.container["ModelDataSource"] = {"S3DataSource": {
        "S3Uri": live.uri, "S3DataType": "S3Object", "CompressionType": "Gzip"}}  # fmt: skip


def _more_weight(live: LiveEndpoint) -> None:
    change = {"VariantName": "AllTraffic", "DesiredInstanceCount": 3}
    live.after.append(lambda: live.account.change_capacities(NAME, **change))


def _by_sdk_v3(live: LiveEndpoint) -> None:
    """The block of docs/adopting.md, as a shell with this account's variables runs it."""
    sdk = importlib.import_module("sagemaker.core.utils.utils").SageMakerClient
    block = next(each for each in python_blocks() if "sagemaker.core.resources" in each)
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


def python_blocks() -> list[str]:
    """The blocks of Python of docs/adopting.md."""
    return page_blocks("python")


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
    template = json.loads(
        text.replace("BUCKET", bucket).replace("123456789012", live.account.number)
    )
    assert live.account.deploy(template, "old") == "CREATE_COMPLETE"
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
    "own count, timeouts, volume and routing": _variant(
        InitialInstanceCount=3, VolumeSizeInGB=50, ModelDataDownloadTimeoutInSeconds=900,
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
    "an archive by ModelDataSource": _data_source,
    "network isolation": lambda live: live.model.update(EnableNetworkIsolation=True),
    "gpu": _gpu,
    "pools": _pools,
    "pools of two models": _pools_of_two_models,
    "a version of the registry": _package,
    "an empty variable": _variables(FEATURES="", TEXT='a "quoted" \\ line\nand\ttab'),
    "core dumps": _core_dumps,
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
    "concurrency": _concurrency,
    "steps": _steps,
    "steps in percent": _percent_steps,
    "steps against their alarm": _steps_down_above,
    "tracking beside the processor": _by_cpu,
    "schedule": _scheduled,
    "capture": _capture,
    "capture that is off": _captured_once,
    "vpc": _vpc,
    "keys": _keys,
    "tags": _tags,
    "tags of the model and the configuration": _tags_beneath,
    "alarms": _alarms,
    "a composite alarm": _composite,
    "canary": _deployment(BlueGreenUpdatePolicy=CANARY),
    "by SDK v3": _by_sdk_v3,
    "by CDK's alpha L2": _by_alpha_l2,
    "metrics": _config(MetricsConfig={
        "EnableEnhancedMetrics": True, "MetricPublishFrequencyInSeconds": 30}),
}  # fmt: skip
