"""Every resource type that can be deployed to the embedded AWS."""

from servable_local.aws.resources.cdk_metadata import CdkMetadata
from servable_local.aws.resources.cloudwatch_alarm import CloudWatchAlarm
from servable_local.aws.resources.composite_alarm import CompositeAlarm
from servable_local.aws.resources.dashboard import Dashboard
from servable_local.aws.resources.ecr_repository import EcrRepository
from servable_local.aws.resources.events_rule import EventsRule
from servable_local.aws.resources.iam_managed_policy import IamManagedPolicy
from servable_local.aws.resources.iam_policy import IamPolicy
from servable_local.aws.resources.iam_role import IamRole
from servable_local.aws.resources.kms_alias import KmsAlias
from servable_local.aws.resources.kms_key import KmsKey
from servable_local.aws.resources.lambda_function import LambdaFunction
from servable_local.aws.resources.lambda_permission import LambdaPermission
from servable_local.aws.resources.log_group import LogGroup
from servable_local.aws.resources.metric_filter import MetricFilter
from servable_local.aws.resources.query_definition import QueryDefinition
from servable_local.aws.resources.resource_type import ResourceType
from servable_local.aws.resources.s3_bucket import S3Bucket
from servable_local.aws.resources.s3_bucket_policy import S3BucketPolicy
from servable_local.aws.resources.sagemaker_endpoint import SageMakerEndpoint
from servable_local.aws.resources.sagemaker_endpoint_config import SageMakerEndpointConfig
from servable_local.aws.resources.sagemaker_model import SageMakerModel
from servable_local.aws.resources.scalable_target import ScalableTarget
from servable_local.aws.resources.scaling_policy import ScalingPolicy
from servable_local.aws.resources.sns_subscription import SnsSubscription
from servable_local.aws.resources.sns_topic import SnsTopic
from servable_local.aws.resources.sns_topic_policy import SnsTopicPolicy
from servable_local.aws.resources.ssm_parameter import SsmParameter

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
