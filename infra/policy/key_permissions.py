"""What the policy of a key of your own must allow: the stack cannot write it for you.

Sources: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html (KmsKeyId)
"""

from dataclasses import dataclass

# To publish to a topic that is encrypted with the key.
PUBLISHING = ("kms:Decrypt", "kms:GenerateDataKey*")


@dataclass(frozen=True, kw_only=True)
class KeyPermission:
    key: str
    """Of the environment file."""
    who: str
    actions: tuple[str, ...]
    condition: str


KEY_PERMISSIONS = (
    KeyPermission(
        key="alarms.topic_kms_key",
        who="cloudwatch.amazonaws.com",
        actions=PUBLISHING,
        condition="aws:SourceAccount is the account",
    ),
    KeyPermission(
        key="alarms.topic_kms_key",
        who="events.amazonaws.com",
        actions=PUBLISHING,
        condition="none: EventBridge sends no source to an encrypted topic",
    ),
    KeyPermission(
        key="endpoint.log_kms_key",
        who="logs.REGION.amazonaws.com",
        actions=(
            "kms:Encrypt*",
            "kms:Decrypt*",
            "kms:ReEncrypt*",
            "kms:GenerateDataKey*",
            "kms:Describe*",
        ),
        condition="kms:EncryptionContext:aws:logs:arn is the log group "
        "/aws/sagemaker/Endpoints/ENDPOINT",
    ),
    KeyPermission(
        key="endpoint.volume_kms_key",
        who="the role that deploys, and the model's role",
        actions=("kms:CreateGrant", "kms:DescribeKey"),
        condition="kms:GrantIsForAWSResource is true",
    ),
    KeyPermission(
        key="alarms.topic_kms_key",
        who="the model's role, with [asynchronous]",
        actions=("kms:Decrypt", "kms:GenerateDataKey"),
        condition="none; a key policy that lets the account's own policies decide is enough",
    ),
    KeyPermission(
        key="asynchronous.kms_key",
        who="the model's role, and the callers",
        actions=("kms:Decrypt", "kms:GenerateDataKey"),
        condition="none; a key policy that lets the account's own policies decide is enough",
    ),
    KeyPermission(
        key="capture.kms_key",
        who="the model's role",
        actions=("kms:Decrypt", "kms:GenerateDataKey"),
        condition="none; a key policy that lets the account's own policies decide is enough",
    ),
)
