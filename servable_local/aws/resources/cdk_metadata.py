"""AWS::CDK::Metadata: CDK's usage report, which makes nothing on AWS either."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType


class CdkMetadata(ResourceType):
    type = "AWS::CDK::Metadata"

    def create(self, properties: Properties, request: Request) -> Made:
        return Made(request.generate_name(64))

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        return Made(physical_id)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        pass
