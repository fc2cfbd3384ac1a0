"""AWS::ECR::Repository, which `cdk bootstrap` makes."""

import json
from typing import Any

from servable_local.aws.resources.resource_type import (
    Made,
    Properties,
    Request,
    ResourceError,
    ResourceType,
)

_KNOWN = {
    "EmptyOnDelete",
    "EncryptionConfiguration",
    "ImageScanningConfiguration",
    "ImageTagMutability",
    "LifecyclePolicy",
    "RepositoryName",
    "RepositoryPolicyText",
    "Tags",
}


class EcrRepository(ResourceType):
    type = "AWS::ECR::Repository"
    create_only = frozenset({"RepositoryName", "EncryptionConfiguration"})
    name_property = "RepositoryName"

    def create(self, properties: Properties, request: Request) -> Made:
        unknown = sorted(set(properties) - _KNOWN)
        if unknown:
            raise ResourceError(f"{self.type}: {', '.join(unknown)} is not emulated")
        ecr = request.client("ecr")
        name = request.name(properties, "RepositoryName", longest=256).lower()
        ecr.create_repository(
            repositoryName=name,
            tags=properties.get("Tags", []),
            imageTagMutability=properties.get("ImageTagMutability", "MUTABLE"),
        )
        request.exists(name)
        _configure(ecr, name, properties)
        return _made(name, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        ecr = request.client("ecr")
        ecr.put_image_tag_mutability(
            repositoryName=physical_id,
            imageTagMutability=new.get("ImageTagMutability", "MUTABLE"),
        )
        _configure(ecr, physical_id, new)
        return _made(physical_id, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        force = str(properties.get("EmptyOnDelete", False)).lower() == "true"
        request.client("ecr").delete_repository(repositoryName=physical_id, force=force)


def _configure(ecr: Any, name: str, properties: Properties) -> None:
    if text := properties.get("LifecyclePolicy", {}).get("LifecyclePolicyText"):
        ecr.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=text)
    if policy := properties.get("RepositoryPolicyText"):
        ecr.set_repository_policy(repositoryName=name, policyText=json.dumps(policy))
    if scanning := properties.get("ImageScanningConfiguration"):
        on = str(scanning.get("ScanOnPush", False)).lower() == "true"
        ecr.put_image_scanning_configuration(
            repositoryName=name, imageScanningConfiguration={"scanOnPush": on}
        )


def _made(name: str, request: Request) -> Made:
    aws = request.aws
    return Made(
        name,
        {
            "Arn": request.arn("ecr", f"repository/{name}"),
            "RepositoryUri": f"{aws.account}.dkr.ecr.{aws.region}.amazonaws.com/{name}",
        },
    )
