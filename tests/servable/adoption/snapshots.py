"""Live snapshots, put together by hand: no AWS answers."""

from typing import Any

from servable.init.adoption.expressed import Expressed, convert_live_endpoint
from servable.init.adoption.live_snapshot import LiveArchive, LiveSnapshot

ARN = "arn:aws:sagemaker:us-east-1:123456789012"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312"
URI = "s3://team/run-7/model.tar.gz"
ROLE = "arn:aws:iam::123456789012:role/sagemaker"
TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/ranker/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
Row = tuple[str, object, str]
ARCHIVE = LiveArchive(sha256="a" * 64, size_bytes=12, size_gib=0.001, models={"ranker": [1]})


def snapshot(
    *,
    container: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    variant: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    endpoint: dict[str, Any] | None = None,
    archive: LiveArchive = ARCHIVE,
    **more: Any,
) -> LiveSnapshot:
    """One real-time endpoint of one variant; each argument adds fields, or replaces them."""
    live = {
        "VariantName": "AllTraffic",
        "ModelName": "ranker-1",
        "InstanceType": "ml.c5.xlarge",
        "InitialInstanceCount": 2,
        "InitialVariantWeight": 1.0,
        **(variant or {}),
    }
    described = {
        "ModelName": "ranker-1",
        "ModelArn": f"{ARN}:model/ranker-1",
        "PrimaryContainer": {"Image": IMAGE, "ModelDataUrl": URI, **(container or {})},
        "ExecutionRoleArn": ROLE,
        **(model or {}),
    }
    return LiveSnapshot(
        account="123456789012",
        region="us-east-1",
        endpoint={
            "EndpointName": "ranker",
            "EndpointArn": f"{ARN}:endpoint/ranker",
            "EndpointConfigName": "config",
            "EndpointStatus": "InService",
            **(endpoint or {}),
        },
        config={
            "EndpointConfigName": "config",
            "EndpointConfigArn": f"{ARN}:endpoint-config/config",
            "ProductionVariants": [live],
            **(config or {}),
        },
        models={"ranker-1": described},
        archives={URI: archive},
        **more,
    )


def convert(**live: Any) -> Expressed:
    """Convert `snapshot(**live)`."""
    return convert_live_endpoint(snapshot(**live))


def rows(result: Any, prefix: str = "") -> list[Row]:
    """List what is not carried over, without this prefix of where it is."""
    return [
        (row.where.removeprefix(prefix).lstrip(": "), row.value, row.effect)
        for row in result.not_carried
    ]


def target(**more: Any) -> dict[str, Any]:
    return {**TARGET, "MinCapacity": 1, "MaxCapacity": 4, **more}


def tracking(metric: str = "SageMakerVariantInvocationsPerInstance", value: float = 1000.0,
             **more: Any) -> dict[str, Any]:  # fmt: skip
    metrics = {"PredefinedMetricSpecification": {"PredefinedMetricType": metric}}
    return {
        **TARGET,
        "PolicyName": "by-hand",
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": {"TargetValue": value, **metrics, **more},
    }


def alarm(metric: str, statistic: str, threshold: float, **more: Any) -> dict[str, Any]:
    key = "ExtendedStatistic" if statistic.startswith("p") else "Statistic"
    names = {"EndpointName": "ranker", "VariantName": "AllTraffic"}
    return {
        "AlarmName": metric,
        "MetricName": metric,
        key: statistic,
        "Threshold": threshold,
        "Period": 60,
        "EvaluationPeriods": 3,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
        "Dimensions": [{"Name": name, "Value": value} for name, value in names.items()],
        **more,
    }
