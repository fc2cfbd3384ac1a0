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

_RULE_AS_IT_IS = ("Status", "AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration")
_CORS_NAMES = {"ExposedHeaders": "ExposeHeaders", "Id": "ID", "MaxAge": "MaxAgeSeconds"}
_RULE_EMULATED = {
    *_RULE_AS_IT_IS,
    "Id",
    "Prefix",
    "ExpirationInDays",
    "ExpiredObjectDeleteMarker",
    "NoncurrentVersionExpirationInDays",
}


class S3Bucket(ResourceType):
    """A bucket. With objects in it, it can't be deleted, as on AWS."""

    type = "AWS::S3::Bucket"
    deletion = ("s3", "DeleteBucket", "Bucket")
    create_only = frozenset({"BucketName"})
    name_property = "BucketName"
    longest_name = 63
    emulated = frozenset(
        {
            "AccessControl",
            "BucketEncryption",
            "BucketName",
            "CorsConfiguration",
            "LifecycleConfiguration",
            "LoggingConfiguration",
            "OwnershipControls",
            "PublicAccessBlockConfiguration",
            "Tags",
            "VersioningConfiguration",
        }
    )

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical).lower()
        where: dict[str, Any] = {}
        if logical.aws.region != "us-east-1":  # S3 rejects this Region as a constraint
            where["CreateBucketConfiguration"] = {"LocationConstraint": logical.aws.region}
        logical.client("s3").create_bucket(Bucket=name, **where)
        logical.exists(name)
        return self.put(name, {}, properties, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        _configure_bucket(logical, physical, old, new)
        region = logical.aws.region
        return Physical(
            physical,
            {
                "Arn": f"arn:aws:s3:::{physical}",
                "DomainName": f"{physical}.s3.amazonaws.com",
                "DualStackDomainName": f"{physical}.s3.dualstack.{region}.amazonaws.com",
                "RegionalDomainName": f"{physical}.s3.{region}.amazonaws.com",
                "WebsiteURL": f"http://{physical}.s3-website-{region}.amazonaws.com",
            },
        )


def _configure_bucket(logical: Logical, name: str, old: Properties, new: Properties) -> None:
    s3, bucket = logical.client("s3"), {"Bucket": name}
    if encryption := new.get("BucketEncryption"):
        names = {"ServerSideEncryptionByDefault": "ApplyServerSideEncryptionByDefault"}
        rules = [
            {names.get(key, key): value for key, value in rule.items()}
            for rule in encryption["ServerSideEncryptionConfiguration"]
        ]
        s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules})
    elif "BucketEncryption" in old:
        s3.delete_bucket_encryption(Bucket=name)
    if block := new.get("PublicAccessBlockConfiguration"):
        switches = {switch: is_true(value) for switch, value in block.items()}
        s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=switches)
    elif "PublicAccessBlockConfiguration" in old:
        s3.delete_public_access_block(Bucket=name)
    if versioning := new.get("VersioningConfiguration"):
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)
    elif "VersioningConfiguration" in old:
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Suspended"})
    if lifecycle := new.get("LifecycleConfiguration"):
        rules = [_convert_lifecycle_rule(rule) for rule in lifecycle["Rules"]]
        s3.put_bucket_lifecycle_configuration(**bucket, LifecycleConfiguration={"Rules": rules})
    elif "LifecycleConfiguration" in old:
        s3.delete_bucket_lifecycle(Bucket=name)
    if cors := new.get("CorsConfiguration"):
        rules = [{_CORS_NAMES.get(k, k): v for k, v in rule.items()} for rule in cors["CorsRules"]]
        logical.call("s3", "PutBucketCors", bucket | {"CORSConfiguration": {"CORSRules": rules}})
    elif "CorsConfiguration" in old:
        s3.delete_bucket_cors(Bucket=name)
    if ownership := new.get("OwnershipControls"):
        s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=ownership)
    if log := new.get("LoggingConfiguration"):
        status = {"TargetBucket": log.get("DestinationBucketName", name)}
        status["TargetPrefix"] = log.get("LogFilePrefix", "")
        s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={"LoggingEnabled": status})
    elif "LoggingConfiguration" in old:
        s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={})
    if new.get("Tags"):
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": new["Tags"]})
    elif old.get("Tags"):
        s3.delete_bucket_tagging(Bucket=name)


def _convert_lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a rule from CloudFormation's spelling to S3's."""
    unknown = sorted(set(rule) - _RULE_EMULATED)
    if unknown:
        raise ResourceError(f"LifecycleConfiguration/Rules: {', '.join(unknown)} is not emulated")
    renamed: dict[str, Any] = {name: rule[name] for name in _RULE_AS_IT_IS if name in rule}
    renamed["Filter"] = {"Prefix": rule.get("Prefix", "")}
    if "Id" in rule:
        renamed["ID"] = rule["Id"]
    if "ExpirationInDays" in rule:
        renamed["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    elif "ExpiredObjectDeleteMarker" in rule:
        marker = is_true(rule["ExpiredObjectDeleteMarker"])
        renamed["Expiration"] = {"ExpiredObjectDeleteMarker": marker}
    if "NoncurrentVersionExpirationInDays" in rule:
        days = int(rule["NoncurrentVersionExpirationInDays"])
        renamed["NoncurrentVersionExpiration"] = {"NoncurrentDays": days}
    return renamed


class S3BucketPolicy(ResourceType):
    type = "AWS::S3::BucketPolicy"
    required = ("Bucket", "PolicyDocument")
    deletion = ("s3", "DeleteBucketPolicy", "Bucket")
    create_only = frozenset({"Bucket"})

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        policy = {"Bucket": new["Bucket"], "Policy": new["PolicyDocument"]}
        logical.call("s3", "PutBucketPolicy", policy)
        return Physical(new["Bucket"])


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
    emulated = frozenset(
        {
            "EmptyOnDelete",
            "EncryptionConfiguration",
            "ImageScanningConfiguration",
            "ImageTagMutability",
            "LifecyclePolicy",
            "RepositoryName",
            "RepositoryPolicyText",
            "Tags",
        }
    )

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical).lower()
        logical.client("ecr").create_repository(
            repositoryName=name, tags=properties.get("Tags", [])
        )
        logical.exists(name)
        return self.put(name, {}, properties, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        repository = {"repositoryName": physical}
        mutability = {"imageTagMutability": new.get("ImageTagMutability", "MUTABLE")}
        logical.call("ecr", "PutImageTagMutability", repository | mutability)
        if text := new.get("LifecyclePolicy", {}).get("LifecyclePolicyText"):
            logical.call("ecr", "PutLifecyclePolicy", repository | {"lifecyclePolicyText": text})
        if policy := new.get("RepositoryPolicyText"):
            logical.call("ecr", "SetRepositoryPolicy", repository | {"policyText": policy})
        if scanning := new.get("ImageScanningConfiguration"):
            scan = {"imageScanningConfiguration": {"scanOnPush": scanning.get("ScanOnPush", False)}}
            logical.call("ecr", "PutImageScanningConfiguration", {**repository, **scan})
        where = f"{logical.aws.account}.dkr.ecr.{logical.aws.region}.amazonaws.com"
        arn = logical.build_arn("ecr", f"repository/{physical}")
        return Physical(physical, {"Arn": arn, "RepositoryUri": f"{where}/{physical}"})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        force = is_true(properties.get("EmptyOnDelete", False))
        logical.client("ecr").delete_repository(repositoryName=physical, force=force)


class SsmParameter(ResourceType):
    """A parameter of Parameter Store. `cdk bootstrap` keeps its version in one."""

    type = "AWS::SSM::Parameter"
    required = ("Type", "Value")
    deletion = ("ssm", "DeleteParameter", "Name")
    create_only = frozenset({"Name"})
    name_property = "Name"

    def choose_name(self, properties: Properties, logical: Logical) -> str:
        """Return the stated name, or one that begins with CFN, not the stack, as recorded."""
        stated = properties.get("Name")
        suffix = logical.generate_name(self.longest_name).rpartition("-")[2]
        return str(stated or f"CFN-{logical.logical_id}-{suffix}")

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        parameter = {k: v for k, v in new.items() if k != "Tags"} | {"Name": physical}
        if old:
            parameter["Overwrite"] = True
        elif tags := new.get("Tags"):
            parameter["Tags"] = [{"Key": k, "Value": v} for k, v in tags.items()]
        logical.call("ssm", "PutParameter", parameter)
        arn = logical.build_arn("ssm", f"parameter/{physical.removeprefix('/')}")
        return Physical(physical, {"Type": new["Type"], "Value": new["Value"], "Arn": arn})
