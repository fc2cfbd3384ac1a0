"""Templates like the project's own: what one environment deploys, without CDK."""

import copy
from typing import Any

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312"
TARGET = "endpoint/ranker/variant/primary"


def get(name: str, attribute: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [name, attribute]}


def role() -> dict[str, Any]:
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": "sts:AssumeRole",
                "Principal": {"Service": "sagemaker.amazonaws.com"},
            }
        ],
    }
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}}


def serving(archive: str, *, variables: dict[str, str] | None = None) -> dict[str, Any]:
    """Role, model, configuration and endpoint `ranker`."""
    return {
        "Resources": {
            "Role": role(),
            "Model": {
                "Type": "AWS::SageMaker::Model",
                "Properties": {
                    "ExecutionRoleArn": get("Role", "Arn"),
                    "PrimaryContainer": {
                        "Image": IMAGE,
                        "ModelDataUrl": archive,
                        "Environment": variables or {"SAGEMAKER_TFS_INSTANCE_COUNT": "2"},
                    },
                },
            },
            "Config": {
                "Type": "AWS::SageMaker::EndpointConfig",
                "Properties": {
                    "ProductionVariants": [
                        {
                            "VariantName": "primary",
                            "ModelName": get("Model", "ModelName"),
                            "InstanceType": "ml.c5.4xlarge",
                            "InitialInstanceCount": 2,
                            "InitialVariantWeight": 0.5,
                            "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
                            "ContainerStartupHealthCheckTimeoutInSeconds": 120,
                            "ModelDataDownloadTimeoutInSeconds": 300,
                        }
                    ]
                },
            },
            "Endpoint": {
                "Type": "AWS::SageMaker::Endpoint",
                "Properties": {
                    "EndpointName": "ranker",
                    "EndpointConfigName": get("Config", "EndpointConfigName"),
                    "RetainAllVariantProperties": True,
                    "ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DesiredWeight"}],
                },
            },
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
    template["Resources"] |= {
        "Key": {
            "Type": "AWS::KMS::Key",
            "Properties": {"KeyPolicy": _open("kms:*"), "EnableKeyRotation": True},
        },
        "Alias": {
            "Type": "AWS::KMS::Alias",
            "Properties": {"AliasName": "alias/ranker", "TargetKeyId": {"Ref": "Key"}},
        },
        "Topic": {
            "Type": "AWS::SNS::Topic",
            "Properties": {"KmsMasterKeyId": get("Key", "Arn")},
        },
        "TopicPolicy": {
            "Type": "AWS::SNS::TopicPolicy",
            "Properties": {"Topics": [{"Ref": "Topic"}], "PolicyDocument": _open("sns:Publish")},
        },
        "Subscription": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {
                "TopicArn": {"Ref": "Topic"},
                "Protocol": "email",
                "Endpoint": "on-call@example.com",
            },
        },
        "Logs": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {
                "LogGroupName": "/aws/sagemaker/Endpoints/ranker",
                "RetentionInDays": 30,
                "KmsKeyId": get("Key", "Arn"),
            },
        },
        "Counter": {
            "Type": "AWS::Logs::MetricFilter",
            "Properties": {
                "LogGroupName": {"Ref": "Logs"},
                "FilterPattern": '"WORKER TIMEOUT"',
                "MetricTransformations": [
                    {
                        "MetricNamespace": "Servable/ranker",
                        "MetricName": "WorkerTimeouts",
                        "MetricValue": "1",
                    }
                ],
            },
        },
        "Question": {
            "Type": "AWS::Logs::QueryDefinition",
            "Properties": {
                "Name": "ranker/errors",
                "QueryString": "fields @message | limit 20",
                "LogGroupNames": [{"Ref": "Logs"}],
            },
        },
        "Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["aws.sagemaker"]},
                "State": "ENABLED",
                "Targets": [{"Id": "topic", "Arn": {"Ref": "Topic"}}],
            },
        },
        "Policy": {
            "Type": "AWS::IAM::Policy",
            "Properties": {
                "PolicyName": "read",
                "PolicyDocument": _open("s3:GetObject"),
                "Roles": [{"Ref": "Role"}],
            },
        },
        "Target": {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "Properties": {
                "ServiceNamespace": "sagemaker",
                "ResourceId": {"Fn::Sub": "endpoint/${Endpoint.EndpointName}/variant/primary"},
                "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
                "MinCapacity": 2,
                "MaxCapacity": 12,
                "RoleARN": get("Role", "Arn"),
            },
        },
        "Scaling": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": "invocations",
                "PolicyType": "TargetTrackingScaling",
                "ScalingTargetId": {"Ref": "Target"},
                "TargetTrackingScalingPolicyConfiguration": {
                    "TargetValue": 6888,
                    "PredefinedMetricSpecification": {
                        "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
                    },
                },
            },
        },
        "Alarm": alarm(),
        "Composite": {
            "Type": "AWS::CloudWatch::CompositeAlarm",
            "Properties": {"AlarmRule": {"Fn::Sub": 'ALARM("${Alarm}")'}},
        },
        "Dashboard": {
            "Type": "AWS::CloudWatch::Dashboard",
            "Properties": {"DashboardBody": '{"widgets": []}'},
        },
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {}},
        "BucketPolicy": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": only_tls()},
        },
    }
    return copy.deepcopy(template)


def alarm() -> dict[str, Any]:
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "Namespace": "AWS/SageMaker",
            "MetricName": "ModelLatency",
            "Dimensions": [{"Name": "EndpointName", "Value": "ranker"}],
            "ExtendedStatistic": "p99",
            "Threshold": 100000,
            "ComparisonOperator": "GreaterThanThreshold",
            "EvaluationPeriods": 3,
            "Period": 60,
            "TreatMissingData": "notBreaching",
        },
    }


def only_tls() -> dict[str, Any]:
    statement = _open("s3:*")["Statement"][0] | {
        "Effect": "Deny",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def _open(action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": "*", "Action": action, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [statement]}
