"""AWS::SageMaker::Model."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.sagemaker_tags import retag
from servable_local.aws.resources.shapes import fit


class SageMakerModel(ResourceType):
    """Nothing but its tags can change: any other change makes a new model."""

    type = "AWS::SageMaker::Model"
    create_only = frozenset(
        {
            "Containers",
            "EnableNetworkIsolation",
            "ExecutionRoleArn",
            "InferenceExecutionConfig",
            "ModelName",
            "PrimaryContainer",
            "VpcConfig",
        }
    )
    name_property = "ModelName"

    def create(self, properties: Properties, request: Request) -> Made:
        name = request.name(properties, "ModelName", longest=63)
        wanted = {**properties, "ModelName": name}
        made = request.client("sagemaker").create_model(**fit(wanted, "sagemaker", "CreateModel"))
        return _made(made["ModelArn"], name)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        retag(physical_id, old, new, request)
        found = request.client("sagemaker").describe_model(ModelName=_name(physical_id))
        return _made(physical_id, found["ModelName"])

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("sagemaker").delete_model(ModelName=_name(physical_id))


def _name(arn: str) -> str:
    """In lower case, as ARNs have it; SageMaker finds it all the same."""
    return arn.split("/", 1)[1]


def _made(arn: str, name: str) -> Made:
    return Made(arn, {"ModelName": name, "ModelArn": arn, "Id": arn})
