"""Every resource type that can be deployed to the embedded AWS."""

from local.aws.resources.cdk_metadata import CdkMetadata
from local.aws.resources.cloudwatch_alarm import CloudWatchAlarm
from local.aws.resources.composite_alarm import CompositeAlarm
from local.aws.resources.dashboard import Dashboard
from local.aws.resources.ecr_repository import EcrRepository
from local.aws.resources.events_rule import EventsRule
from local.aws.resources.iam_managed_policy import IamManagedPolicy
from local.aws.resources.iam_policy import IamPolicy
from local.aws.resources.iam_role import IamRole
from local.aws.resources.kms_alias import KmsAlias
from local.aws.resources.kms_key import KmsKey
from local.aws.resources.lambda_function import LambdaFunction
from local.aws.resources.lambda_permission import LambdaPermission
from local.aws.resources.log_group import LogGroup
from local.aws.resources.metric_filter import MetricFilter
from local.aws.resources.query_definition import QueryDefinition
from local.aws.resources.resource_type import ResourceType
from local.aws.resources.s3_bucket import S3Bucket
from local.aws.resources.s3_bucket_policy import S3BucketPolicy
from local.aws.resources.sagemaker_endpoint import SageMakerEndpoint
from local.aws.resources.sagemaker_endpoint_config import SageMakerEndpointConfig
from local.aws.resources.sagemaker_model import SageMakerModel
from local.aws.resources.scalable_target import ScalableTarget
from local.aws.resources.scaling_policy import ScalingPolicy
from local.aws.resources.sns_subscription import SnsSubscription
from local.aws.resources.sns_topic import SnsTopic
from local.aws.resources.sns_topic_policy import SnsTopicPolicy
from local.aws.resources.ssm_parameter import SsmParameter

_TYPES: tuple[type[ResourceType], ...] = (
    CdkMetadata,
    CloudWatchAlarm,
    CompositeAlarm,
    Dashboard,
    EcrRepository,
    EventsRule,
    IamManagedPolicy,
    IamPolicy,
    IamRole,
    KmsAlias,
    KmsKey,
    LambdaFunction,
    LambdaPermission,
    LogGroup,
    MetricFilter,
    QueryDefinition,
    S3Bucket,
    S3BucketPolicy,
    SageMakerEndpoint,
    SageMakerEndpointConfig,
    SageMakerModel,
    ScalableTarget,
    ScalingPolicy,
    SnsSubscription,
    SnsTopic,
    SnsTopicPolicy,
    SsmParameter,
)
TYPES: dict[str, ResourceType] = {kind.type: kind() for kind in _TYPES}
