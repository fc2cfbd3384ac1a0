"""Templates like the project's own: what one environment deploys, without CDK."""

import json
from typing import Any

from tests.servable_local.aws.local_account import TRUST

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312"
TARGET = "endpoint/ranker/variant/primary"


def get(name: str, attribute: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [name, attribute]}


def ref(name: str) -> dict[str, str]:
    return {"Ref": name}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def role() -> dict[str, Any]:
    return resource("IAM::Role", AssumeRolePolicyDocument=json.loads(TRUST))


def serving(archive: str, *, variables: dict[str, str] | None = None) -> dict[str, Any]:
    """Role, model, configuration and endpoint `ranker`."""
    container = {
        "Image": IMAGE,
        "ModelDataUrl": archive,
        "Environment": variables or {"SAGEMAKER_TFS_INSTANCE_COUNT": "2"},
    }
    variant = {
        "VariantName": "primary",
        "ModelName": get("Model", "ModelName"),
        "InstanceType": "ml.c5.4xlarge",
        "InitialInstanceCount": 2,
        "InitialVariantWeight": 0.5,
        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
        "ContainerStartupHealthCheckTimeoutInSeconds": 120,
        "ModelDataDownloadTimeoutInSeconds": 300,
    }
    resources = {
        "Role": role(),
        "Model": resource(
            "SageMaker::Model", ExecutionRoleArn=get("Role", "Arn"), PrimaryContainer=container),
        "Config": resource("SageMaker::EndpointConfig", ProductionVariants=[variant]),
        "Endpoint": resource(
            "SageMaker::Endpoint", EndpointName="ranker", RetainAllVariantProperties=True,
            EndpointConfigName=get("Config", "EndpointConfigName"),
            ExcludeRetainedVariantProperties=[{"VariantPropertyType": "DesiredWeight"}]),
    }  # fmt: skip
    outputs = {f"{name}Ref": {"Value": ref(name)} for name in ("Model", "Config", "Endpoint")}
    outputs["EndpointName"] = {"Value": get("Endpoint", "EndpointName")}
    return {"Resources": resources, "Outputs": outputs}


def alarm() -> dict[str, Any]:
    return resource(
        "CloudWatch::Alarm", Namespace="AWS/SageMaker", MetricName="ModelLatency",
        Dimensions=[{"Name": "EndpointName", "Value": "ranker"}], ExtendedStatistic="p99",
        Threshold=100000, ComparisonOperator="GreaterThanThreshold", EvaluationPeriods=3,
        Period=60, TreatMissingData="notBreaching",
    )  # fmt: skip


def only_tls() -> dict[str, Any]:
    plain = {"Bool": {"aws:SecureTransport": "false"}}
    policy = allow("s3:*")
    policy["Statement"][0] |= {"Effect": "Deny", "Condition": plain}
    return policy


def allow(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": "*", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}
