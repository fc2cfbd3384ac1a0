"""AWS::SageMaker::EndpointConfig."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.sagemaker_tags import retag
from servable_local.aws.resources.shapes import fit


class SageMakerEndpointConfig(ResourceType):
    """Nothing but its tags can change: any other change makes a new configuration."""

    type = "AWS::SageMaker::EndpointConfig"
    create_only = frozenset(
        {
            "AsyncInferenceConfig",
            "DataCaptureConfig",
            "EnableNetworkIsolation",
            "EndpointConfigName",
            "ExecutionRoleArn",
            "ExplainerConfig",
            "KmsKeyId",
            "MetricsConfig",
            "ProductionVariants",
            "ShadowProductionVariants",
            "VpcConfig",
        }
    )
    name_property = "EndpointConfigName"

    def create(self, properties: Properties, request: Request) -> Made:
        name = request.name(properties, "EndpointConfigName", longest=63)
        wanted = {**properties, "EndpointConfigName": name}
        made = request.client("sagemaker").create_endpoint_config(
            **fit(wanted, "sagemaker", "CreateEndpointConfig")
        )
        return _made(made["EndpointConfigArn"], name)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        retag(physical_id, old, new, request)
        found = request.client("sagemaker").describe_endpoint_config(
            EndpointConfigName=_name(physical_id)
        )
        return _made(physical_id, found["EndpointConfigName"])

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        name = _name(physical_id)
        request.client("sagemaker").delete_endpoint_config(EndpointConfigName=name)


def _name(arn: str) -> str:
    """In lower case, as ARNs have it; SageMaker finds it all the same."""
    return arn.split("/", 1)[1]


def _made(arn: str, name: str) -> Made:
    return Made(arn, {"EndpointConfigName": name, "EndpointConfigArn": arn, "Id": arn})
