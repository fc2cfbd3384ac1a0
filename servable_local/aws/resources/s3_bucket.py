"""AWS::S3::Bucket."""

from typing import Any

from servable_local.aws.resources.resource_type import (
    Made,
    Properties,
    Request,
    ResourceError,
    ResourceType,
)
from servable_local.aws.resources.s3_lifecycle import lifecycle_rules

_KNOWN = {
    "AccessControl",
    "BucketEncryption",
    "BucketName",
    "LifecycleConfiguration",
    "LoggingConfiguration",
    "OwnershipControls",
    "PublicAccessBlockConfiguration",
    "Tags",
    "VersioningConfiguration",
}


class S3Bucket(ResourceType):
    """A bucket that still holds objects is not deleted, here as on AWS."""

    type = "AWS::S3::Bucket"
    create_only = frozenset({"BucketName"})
    name_property = "BucketName"

    def create(self, properties: Properties, request: Request) -> Made:
        unknown = sorted(set(properties) - _KNOWN)
        if unknown:
            raise ResourceError(f"{self.type}: {', '.join(unknown)} is not emulated")
        s3 = request.client("s3")
        name = request.name(properties, "BucketName", longest=63).lower()
        where: dict[str, Any] = {}
        if request.aws.region != "us-east-1":  # which S3 refuses to be told
            where["CreateBucketConfiguration"] = {"LocationConstraint": request.aws.region}
        s3.create_bucket(Bucket=name, **where)
        request.exists(name)
        _configure(s3, name, properties)
        return _made(name, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        _configure(request.client("s3"), physical_id, new, old)
        return _made(physical_id, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("s3").delete_bucket(Bucket=physical_id)


def _configure(s3: Any, name: str, new: Properties, old: Properties | None = None) -> None:
    old = old or {}
    if encryption := new.get("BucketEncryption"):
        rules = []
        for rule in encryption["ServerSideEncryptionConfiguration"]:
            renamed = {k: v for k, v in rule.items() if k != "ServerSideEncryptionByDefault"}
            renamed["ApplyServerSideEncryptionByDefault"] = rule["ServerSideEncryptionByDefault"]
            rules.append(renamed)
        s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules})
    elif "BucketEncryption" in old:
        s3.delete_bucket_encryption(Bucket=name)
    if block := new.get("PublicAccessBlockConfiguration"):
        s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=_switches(block))
    elif "PublicAccessBlockConfiguration" in old:
        s3.delete_public_access_block(Bucket=name)
    if versioning := new.get("VersioningConfiguration"):
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)
    elif "VersioningConfiguration" in old:
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Suspended"})
    if lifecycle := new.get("LifecycleConfiguration"):
        s3.put_bucket_lifecycle_configuration(
            Bucket=name, LifecycleConfiguration={"Rules": lifecycle_rules(lifecycle["Rules"])}
        )
    elif "LifecycleConfiguration" in old:
        s3.delete_bucket_lifecycle(Bucket=name)
    if ownership := new.get("OwnershipControls"):
        s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=ownership)
    if log := new.get("LoggingConfiguration"):
        status = {"TargetBucket": log.get("DestinationBucketName", name)}
        status["TargetPrefix"] = log.get("LogFilePrefix", "")
        s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={"LoggingEnabled": status})
    if new.get("Tags"):
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": new["Tags"]})
    elif old.get("Tags"):
        s3.delete_bucket_tagging(Bucket=name)


def _switches(block: dict[str, Any]) -> dict[str, bool]:
    return {name: str(value).lower() == "true" for name, value in block.items()}


def _made(name: str, request: Request) -> Made:
    region = request.aws.region
    return Made(
        name,
        {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "DualStackDomainName": f"{name}.s3.dualstack.{region}.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{region}.amazonaws.com",
            "WebsiteURL": f"http://{name}.s3-website-{region}.amazonaws.com",
        },
    )
