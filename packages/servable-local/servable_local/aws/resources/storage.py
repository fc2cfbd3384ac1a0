"""Buckets and their policies, repositories, parameters, and the metadata that CDK adds."""

from collections.abc import Mapping
from typing import Any

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceError,
    ResourceType,
    is_true,
)

# A bucket's settings, each with the name of its operations and their argument.
_SETTINGS = {
    "BucketEncryption": ("BucketEncryption", "ServerSideEncryptionConfiguration"),
    "CorsConfiguration": ("BucketCors", "CORSConfiguration"),
    "LifecycleConfiguration": ("BucketLifecycleConfiguration", "LifecycleConfiguration"),
    "LoggingConfiguration": ("BucketLogging", "BucketLoggingStatus"),
    "NotificationConfiguration": ("BucketNotificationConfiguration", "NotificationConfiguration"),
    "OwnershipControls": ("BucketOwnershipControls", "OwnershipControls"),
    "PublicAccessBlockConfiguration": ("PublicAccessBlock", "PublicAccessBlockConfiguration"),
    "Tags": ("BucketTagging", "Tagging"),
    "VersioningConfiguration": ("BucketVersioning", "VersioningConfiguration"),
    "WebsiteConfiguration": ("BucketWebsite", "WebsiteConfiguration"),
}
# The values of those that no operation deletes.
_WITHOUT = {
    "LoggingConfiguration": {},
    "NotificationConfiguration": {},
    "VersioningConfiguration": {"Status": "Suspended"},
}
# S3's names of what CloudFormation calls differently.
_NAMES = {
    "CorsRules": "CORSRules",
    "Event": "Events",
    "ExposedHeaders": "ExposeHeaders",
    "Id": "ID",
    "MaxAge": "MaxAgeSeconds",
    "Queue": "QueueArn",
    "RedirectRule": "Redirect",
    "RoutingRuleCondition": "Condition",
    "S3Key": "Key",
    "ServerSideEncryptionByDefault": "ApplyServerSideEncryptionByDefault",
    "ServerSideEncryptionConfiguration": "Rules",
    "Topic": "TopicArn",
    "TransitionDate": "Date",
    "TransitionInDays": "Days",
}
# Where S3 has what CloudFormation lists in a lifecycle rule itself.
_RULE_NAMES = {
    "ExpirationDate": ("Expiration", "Date"),
    "ExpirationInDays": ("Expiration", "Days"),
    "ExpiredObjectDeleteMarker": ("Expiration", "ExpiredObjectDeleteMarker"),
    "NoncurrentVersionExpirationInDays": ("NoncurrentVersionExpiration", "NoncurrentDays"),
    "Prefix": ("Filter", "Prefix"),
    "TagFilters": ("Filter", "Tags"),
}


class S3Bucket(ResourceType):
    """A bucket. With objects in it, it can't be deleted, as on AWS."""

    type = "AWS::S3::Bucket"
    deletion = ("s3", "DeleteBucket", "Bucket")
    name_property = "BucketName"
    longest_name = 63
    emulated = frozenset({"AccessControl", "BucketName", *_SETTINGS})

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical).lower()
        where: dict[str, Any] = {}
        if logical.aws.region != "us-east-1":  # S3 rejects this Region as a constraint
            where["CreateBucketConfiguration"] = {"LocationConstraint": logical.aws.region}
        logical.client("s3").create_bucket(Bucket=name, **where)
        logical.exists(name)
        return self.put(name, {}, properties, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        for name, (operation, argument) in _SETTINGS.items():
            value = _convert_setting(name, new[name], physical) if new.get(name) else None
            if value is None and old.get(name):
                value = _WITHOUT.get(name)
            if value is not None:
                logical.call("s3", f"Put{operation}", {"Bucket": physical, argument: value})
            elif old.get(name):
                removal = f"Delete{operation.removesuffix('Configuration')}"
                logical.call("s3", removal, {"Bucket": physical})
        region = logical.aws.region
        attributes = {
            "Arn": f"arn:aws:s3:::{physical}",
            "DomainName": f"{physical}.s3.amazonaws.com",
            "DualStackDomainName": f"{physical}.s3.dualstack.{region}.amazonaws.com",
            "RegionalDomainName": f"{physical}.s3.{region}.amazonaws.com",
            "WebsiteURL": f"http://{physical}.s3-website-{region}.amazonaws.com",
        }
        return Physical(physical, attributes)


def _convert_setting(name: str, value: Any, bucket: str) -> Any:
    """Convert a bucket's property from CloudFormation's format to S3's."""
    if name == "Tags":
        return {"TagSet": value}
    if name == "LoggingConfiguration":
        target = {"TargetBucket": value.get("DestinationBucketName", bucket)}
        return {"LoggingEnabled": target | {"TargetPrefix": value.get("LogFilePrefix", "")}}
    if name == "LifecycleConfiguration":
        return {"Rules": [_convert_lifecycle_rule(rule) for rule in value["Rules"]]}
    value = _rename(value)
    if name == "WebsiteConfiguration":
        for key, inner in (("IndexDocument", "Suffix"), ("ErrorDocument", "Key")):
            if key in value:
                value[key] = {inner: value[key]}
    if name == "NotificationConfiguration":
        if "EventBridgeConfiguration" in value:
            value["EventBridgeConfiguration"] = {}
        for listed in value.values():
            for one in listed if isinstance(listed, list) else ():
                if "Filter" in one:
                    one["Filter"]["Key"] = {"FilterRules": one["Filter"]["Key"]["Rules"]}
    return value


def _rename(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_NAMES.get(key, key): _rename(item) for key, item in value.items()}
    return [_rename(item) for item in value] if isinstance(value, list) else value


def _convert_lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("ObjectSizeGreaterThan", "ObjectSizeLessThan", "NewerNoncurrentVersions"):
        if name in {*rule, *rule.get("NoncurrentVersionExpiration", ())}:  # moto drops it
            raise ResourceError(f"LifecycleConfiguration/Rules: {name} is not emulated")
    converted: dict[str, Any] = {"Filter": {}}
    for name, value in rule.items():
        outer, inner = _RULE_NAMES.get(name, (name, None))
        if inner is None:
            converted[_NAMES.get(name, name)] = _rename(value)
        else:
            converted.setdefault(outer, {})[inner] = value
    for transition in converted.get("NoncurrentVersionTransitions", ()):
        transition["NoncurrentDays"] = transition.pop("Days")
    if converted["Filter"].keys() - {"Prefix"}:
        converted["Filter"] = {"And": converted["Filter"]}
    return converted


class S3BucketPolicy(ResourceType):
    type = "AWS::S3::BucketPolicy"
    required = ("Bucket", "PolicyDocument")
    deletion = ("s3", "DeleteBucketPolicy", "Bucket")
    create_only = frozenset({"Bucket"})

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        bucket = new["Bucket"]
        logical.call("s3", "PutBucketPolicy", {"Bucket": bucket, "Policy": new["PolicyDocument"]})
        return Physical(bucket)


class CdkMetadata(ResourceType):
    """CDK's usage report, which creates nothing on AWS either."""

    type = "AWS::CDK::Metadata"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        return Physical(physical)

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        pass


class EcrRepository(ResourceType):
    type = "AWS::ECR::Repository"
    create_only = frozenset({"RepositoryName", "EncryptionConfiguration"})
    name_property = "RepositoryName"
    emulated = frozenset({
        "EmptyOnDelete", "EncryptionConfiguration", "ImageScanningConfiguration", "Tags",
        "ImageTagMutability", "LifecyclePolicy", "RepositoryName", "RepositoryPolicyText",
    })  # fmt: skip

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical).lower()
        logical.client("ecr").create_repository(repositoryName=name)
        logical.exists(name)
        return self.put(name, {}, properties, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        repository = {"repositoryName": physical}
        mutability = {"imageTagMutability": new.get("ImageTagMutability", "MUTABLE")}
        logical.call("ecr", "PutImageTagMutability", repository | mutability)
        if text := new.get("LifecyclePolicy", {}).get("LifecyclePolicyText"):
            logical.call("ecr", "PutLifecyclePolicy", repository | {"lifecyclePolicyText": text})
        elif old.get("LifecyclePolicy"):
            logical.call("ecr", "DeleteLifecyclePolicy", repository)
        if policy := new.get("RepositoryPolicyText"):
            logical.call("ecr", "SetRepositoryPolicy", repository | {"policyText": policy})
        elif old.get("RepositoryPolicyText"):
            logical.call("ecr", "DeleteRepositoryPolicy", repository)
        if scanning := new.get("ImageScanningConfiguration"):
            scan = {"imageScanningConfiguration": {"scanOnPush": scanning.get("ScanOnPush", False)}}
            logical.call("ecr", "PutImageScanningConfiguration", {**repository, **scan})
        where = f"{logical.aws.account}.dkr.ecr.{logical.aws.region}.amazonaws.com"
        arn = logical.build_arn("ecr", f"repository/{physical}")
        logical.update_tags("ecr", {"resourceArn": arn}, old, new, arguments=("tags", "tagKeys"))
        return Physical(physical, {"Arn": arn, "RepositoryUri": f"{where}/{physical}"})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        force = is_true(properties.get("EmptyOnDelete", False))
        logical.client("ecr").delete_repository(repositoryName=physical, force=force)


class SsmParameter(ResourceType):
    """A parameter of Parameter Store. `cdk bootstrap` keeps its version in one."""

    type = "AWS::SSM::Parameter"
    required = ("Type", "Value")
    deletion = ("ssm", "DeleteParameter", "Name")
    name_property = "Name"

    def choose_name(self, properties: Properties, logical: Logical) -> str:
        """Return the stated name, or one that begins with CFN, not the stack, as recorded."""
        stated = properties.get("Name")
        suffix = logical.generate_name(self.longest_name).rpartition("-")[2]
        return str(stated or f"CFN-{logical.logical_id}-{suffix}")

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        parameter = {key: value for key, value in new.items() if key != "Tags"}
        parameter |= {"Name": physical, "Overwrite": bool(old)}
        logical.call("ssm", "PutParameter", parameter)
        resource = {"ResourceType": "Parameter", "ResourceId": physical}
        operations = ("AddTagsToResource", "RemoveTagsFromResource")
        logical.update_tags("ssm", resource, old, new, operations)
        arn = logical.build_arn("ssm", f"parameter/{physical.removeprefix('/')}")
        return Physical(physical, {"Type": new["Type"], "Value": new["Value"], "Arn": arn})
