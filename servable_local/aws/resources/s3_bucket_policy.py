"""AWS::S3::BucketPolicy."""

import json

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType


class S3BucketPolicy(ResourceType):
    type = "AWS::S3::BucketPolicy"
    create_only = frozenset({"Bucket"})

    def create(self, properties: Properties, request: Request) -> Made:
        request.client("s3").put_bucket_policy(
            Bucket=properties["Bucket"], Policy=json.dumps(properties["PolicyDocument"])
        )
        return Made(properties["Bucket"])

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        return self.create(new, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("s3").delete_bucket_policy(Bucket=physical_id)
