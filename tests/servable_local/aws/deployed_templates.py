"""Templates like the project's own: what one environment deploys, without CDK."""

import copy
from typing import Any

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312"
TARGET = "endpoint/ranker/variant/primary"


def get(name: str, attribute: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [name, attribute]}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def role() -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"Service": "sagemaker.amazonaws.com"},
    }
    trust = {"Version": "2012-10-17", "Statement": [statement]}
    return resource("IAM::Role", AssumeRolePolicyDocument=trust)


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
    return {
        "Resources": {
            "Role": role(),
            "Model": resource(
                "SageMaker::Model", ExecutionRoleArn=get("Role", "Arn"), PrimaryContainer=container
            ),
            "Config": resource("SageMaker::EndpointConfig", ProductionVariants=[variant]),
            "Endpoint": resource(
                "SageMaker::Endpoint",
                EndpointName="ranker",
                EndpointConfigName=get("Config", "EndpointConfigName"),
                RetainAllVariantProperties=True,
                ExcludeRetainedVariantProperties=[{"VariantPropertyType": "DesiredWeight"}],
            ),
        },
        "Outputs": {
            "ModelRef": {"Value": {"Ref": "Model"}},
            "ConfigRef": {"Value": {"Ref": "Config"}},
            "EndpointRef": {"Value": {"Ref": "Endpoint"}},
            "EndpointName": {"Value": get("Endpoint", "EndpointName")},
        },
    }


def environment(archive: str) -> dict[str, Any]:
    """One of every type that an environment holds."""
    template = serving(archive)
    counted = {
        "MetricNamespace": "Servable/ranker",
        "MetricName": "WorkerTimeouts",
        "MetricValue": "1",
    }
    tracked = {
        "TargetValue": 6888,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
        },
    }
    template["Resources"] |= {
        "Key": resource("KMS::Key", KeyPolicy=_open("kms:*"), EnableKeyRotation=True),
        "Alias": resource("KMS::Alias", AliasName="alias/ranker", TargetKeyId={"Ref": "Key"}),
        "Topic": resource("SNS::Topic", KmsMasterKeyId=get("Key", "Arn")),
        "TopicPolicy": resource(
            "SNS::TopicPolicy", Topics=[{"Ref": "Topic"}], PolicyDocument=_open("sns:Publish")
        ),
        "Subscription": resource(
            "SNS::Subscription",
            TopicArn={"Ref": "Topic"},
            Protocol="email",
            Endpoint="on-call@example.com",
        ),
        "Logs": resource(
            "Logs::LogGroup",
            LogGroupName="/aws/sagemaker/Endpoints/ranker",
            RetentionInDays=30,
            KmsKeyId=get("Key", "Arn"),
        ),
        "Counter": resource(
            "Logs::MetricFilter",
            LogGroupName={"Ref": "Logs"},
            FilterPattern='"WORKER TIMEOUT"',
            MetricTransformations=[counted],
        ),
        "Question": resource(
            "Logs::QueryDefinition",
            Name="ranker/errors",
            QueryString="fields @message | limit 20",
            LogGroupNames=[{"Ref": "Logs"}],
        ),
        "Rule": resource(
            "Events::Rule",
            EventPattern={"source": ["aws.sagemaker"]},
            State="ENABLED",
            Targets=[{"Id": "topic", "Arn": {"Ref": "Topic"}}],
        ),
        "Policy": resource(
            "IAM::Policy",
            PolicyName="read",
            PolicyDocument=_open("s3:GetObject"),
            Roles=[{"Ref": "Role"}],
        ),
        "Target": resource(
            "ApplicationAutoScaling::ScalableTarget",
            ServiceNamespace="sagemaker",
            ResourceId={"Fn::Sub": "endpoint/${Endpoint.EndpointName}/variant/primary"},
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
            MinCapacity=2,
            MaxCapacity=12,
            RoleARN=get("Role", "Arn"),
        ),
        "Scaling": resource(
            "ApplicationAutoScaling::ScalingPolicy",
            PolicyName="invocations",
            PolicyType="TargetTrackingScaling",
            ScalingTargetId={"Ref": "Target"},
            TargetTrackingScalingPolicyConfiguration=tracked,
        ),
        "Alarm": alarm(),
        "Composite": resource(
            "CloudWatch::CompositeAlarm", AlarmRule={"Fn::Sub": 'ALARM("${Alarm}")'}
        ),
        "Dashboard": resource("CloudWatch::Dashboard", DashboardBody='{"widgets": []}'),
        "Bucket": resource("S3::Bucket"),
        "BucketPolicy": resource(
            "S3::BucketPolicy", Bucket={"Ref": "Bucket"}, PolicyDocument=only_tls()
        ),
    }
    return copy.deepcopy(template)


def alarm() -> dict[str, Any]:
    return resource(
        "CloudWatch::Alarm",
        Namespace="AWS/SageMaker",
        MetricName="ModelLatency",
        Dimensions=[{"Name": "EndpointName", "Value": "ranker"}],
        ExtendedStatistic="p99",
        Threshold=100000,
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=3,
        Period=60,
        TreatMissingData="notBreaching",
    )


def only_tls() -> dict[str, Any]:
    statement = _open("s3:*")["Statement"][0] | {
        "Effect": "Deny",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def _open(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": "*", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}
