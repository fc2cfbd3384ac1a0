"""Tags on what SageMaker holds, by ARN."""

from servable_local.aws.resources import tags
from servable_local.aws.resources.resource_type import Properties, Request


def retag(arn: str, old: Properties, new: Properties, request: Request) -> None:
    sagemaker = request.client("sagemaker")
    wanted, gone = tags.difference(old, new)
    if wanted:
        sagemaker.add_tags(ResourceArn=arn, Tags=wanted)
    if gone:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=gone)
