"""A CDK app as its owner wrote it, without Servable: a bucket, a topic, an alarm, an autoscaled endpoint."""

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.19-cpu"

app = cdk.App()
stack = cdk.Stack(app, "other", env=cdk.Environment(account="123456789012", region="us-east-1"))
results = s3.Bucket(stack, "Results", versioned=True, removal_policy=cdk.RemovalPolicy.DESTROY)
on_call = sns.Topic(stack, "OnCall")
archive = assets.Asset(stack, "Archive", path="model.tar.gz")
role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
archive.grant_read(role)
results.grant_write(role)
model = sagemaker.CfnModel(
    stack,
    "Model",
    execution_role_arn=role.role_arn,
    primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
        image=IMAGE, model_data_url=archive.s3_object_url
    ),
)
model.node.add_dependency(role)
config = sagemaker.CfnEndpointConfig(
    stack,
    "Config",
    production_variants=[
        sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            variant_name="AllTraffic",
            model_name=model.attr_model_name,
            instance_type="ml.m5.large",
            initial_instance_count=1,
            initial_variant_weight=1,
        )
    ],
)
endpoint = sagemaker.CfnEndpoint(
    stack, "Endpoint", endpoint_name="others", endpoint_config_name=config.attr_endpoint_config_name
)
target = scaling.ScalableTarget(
    stack,
    "Scaling",
    service_namespace=scaling.ServiceNamespace.SAGEMAKER,
    resource_id=f"endpoint/{endpoint.attr_endpoint_name}/variant/AllTraffic",
    scalable_dimension="sagemaker:variant:DesiredInstanceCount",
    min_capacity=1,
    max_capacity=3,
)
target.scale_to_track_metric(
    "Load",
    target_value=700,
    predefined_metric=scaling.PredefinedMetric.SAGEMAKER_VARIANT_INVOCATIONS_PER_INSTANCE,
)
failing = cloudwatch.Metric(
    namespace="AWS/SageMaker",
    metric_name="Invocation5XXErrors",
    dimensions_map={"EndpointName": "others", "VariantName": "AllTraffic"},
    period=cdk.Duration.minutes(1),
    statistic="Sum",
).create_alarm(stack, "Failing", threshold=1, evaluation_periods=1)
failing.add_alarm_action(actions.SnsAction(on_call))
app.synth()
