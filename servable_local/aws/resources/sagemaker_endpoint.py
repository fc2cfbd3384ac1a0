"""AWS::SageMaker::Endpoint: waits until it serves, as CloudFormation does."""

import time
from typing import Any

from servable_local.aws.resources.resource_type import (
    Made,
    Properties,
    Request,
    ResourceError,
    ResourceType,
)
from servable_local.aws.resources.sagemaker_tags import retag
from servable_local.aws.resources.shapes import fit

# From the first look to the next, and at most: an update may bake for an hour.
_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.01, 0.1
# Only of an update; an endpoint that does not exist has no properties to retain.
_UPDATE_ONLY = (
    "ExcludeRetainedVariantProperties",
    "RetainAllVariantProperties",
    "RetainDeploymentConfig",
)


class SageMakerEndpoint(ResourceType):
    type = "AWS::SageMaker::Endpoint"
    create_only = frozenset({"EndpointName"})
    name_property = "EndpointName"

    def create(self, properties: Properties, request: Request) -> Made:
        name = request.name(properties, "EndpointName", longest=63)
        wanted = {k: v for k, v in properties.items() if k not in _UPDATE_ONLY}
        sagemaker = request.client("sagemaker")
        made = sagemaker.create_endpoint(
            **fit(wanted | {"EndpointName": name}, "sagemaker", "CreateEndpoint")
        )
        request.exists(made["EndpointArn"])
        found = _settled(sagemaker, name)
        if found["EndpointStatus"] != "InService":
            raise ResourceError(found.get("FailureReason", found["EndpointStatus"]))
        return _made(made["EndpointArn"], name)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        name = _name(physical_id)
        sagemaker = request.client("sagemaker")
        config = new["EndpointConfigName"].rsplit("/", 1)[-1]
        current = sagemaker.describe_endpoint(EndpointName=name)
        # A rollback finds the old configuration serving: SageMaker has gone back already.
        if current["EndpointConfigName"] != config or current["EndpointStatus"] == "Failed":
            wanted = {k: v for k, v in new.items() if k != "Tags"}
            wanted |= {"EndpointName": name, "EndpointConfigName": config}
            sagemaker.update_endpoint(**fit(wanted, "sagemaker", "UpdateEndpoint"))
            found = _settled(sagemaker, name)
            if found["EndpointConfigName"] != config or found["EndpointStatus"] != "InService":
                raise ResourceError(found.get("FailureReason", found["EndpointStatus"]))
        retag(physical_id, old, new, request)
        return _made(physical_id, current["EndpointName"])

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        name = _name(physical_id)
        sagemaker = request.client("sagemaker")
        try:
            sagemaker.delete_endpoint(EndpointName=name)
        except sagemaker.exceptions.ClientError as error:
            if "Could not find endpoint" not in str(error):
                raise


def _settled(sagemaker: Any, name: str) -> dict[str, Any]:
    poll_seconds = _POLL_SECONDS
    while True:
        found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
        if found["EndpointStatus"] not in ("Creating", "Updating", "SystemUpdating", "RollingBack"):
            return found
        time.sleep(poll_seconds)
        poll_seconds = min(poll_seconds * 1.5, _LONGEST_POLL_SECONDS)


def _name(arn: str) -> str:
    """In lower case, as ARNs have it; SageMaker finds it all the same."""
    return arn.split("/", 1)[1]


def _made(arn: str, name: str) -> Made:
    return Made(arn, {"EndpointName": name, "EndpointArn": arn, "Id": arn})
