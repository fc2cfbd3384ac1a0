"""Resources that `cdk bootstrap` makes besides a bucket and roles, and the metadata that CDK adds."""

from servable_local.aws.resources.resource_type import Logical, Physical, ResourceType
from servable_local.aws.resources.shapes import Properties, is_true


class CdkMetadata(ResourceType):
    """CDK's usage report, which makes nothing on AWS either."""

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
        name = self.name(properties, logical).lower()
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
        arn = logical.arn("ecr", f"repository/{physical}")
        return Physical(physical, {"Arn": arn, "RepositoryUri": f"{where}/{physical}"})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        force = is_true(properties.get("EmptyOnDelete", False))
        logical.client("ecr").delete_repository(repositoryName=physical, force=force)


class SsmParameter(ResourceType):
    """`cdk bootstrap` keeps its version in one."""

    type = "AWS::SSM::Parameter"
    required = ("Type", "Value")
    deletion = ("ssm", "DeleteParameter", "Name")
    create_only = frozenset({"Name"})
    name_property = "Name"

    def name(self, properties: Properties, logical: Logical) -> str:
        """One that is left out begins with CFN and not with the stack's, as was recorded."""
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
        arn = logical.arn("ssm", f"parameter/{physical.removeprefix('/')}")
        return Physical(physical, {"Type": new["Type"], "Value": new["Value"], "Arn": arn})
