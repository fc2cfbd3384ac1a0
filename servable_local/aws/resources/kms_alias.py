"""AWS::KMS::Alias."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType


class KmsAlias(ResourceType):
    type = "AWS::KMS::Alias"
    create_only = frozenset({"AliasName"})
    name_property = "AliasName"

    def create(self, properties: Properties, request: Request) -> Made:
        name = properties["AliasName"]
        request.client("kms").create_alias(AliasName=name, TargetKeyId=properties["TargetKeyId"])
        return Made(name)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        kms = request.client("kms")
        kms.update_alias(AliasName=physical_id, TargetKeyId=new["TargetKeyId"])
        return Made(physical_id)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("kms").delete_alias(AliasName=physical_id)
