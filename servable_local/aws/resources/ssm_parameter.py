"""AWS::SSM::Parameter, in which `cdk bootstrap` keeps its version."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit


class SsmParameter(ResourceType):
    type = "AWS::SSM::Parameter"
    create_only = frozenset({"Name"})
    name_property = "Name"

    def create(self, properties: Properties, request: Request) -> Made:
        name = request.name(properties, "Name")
        wanted = {k: v for k, v in properties.items() if k != "Tags"} | {"Name": name}
        if properties.get("Tags"):
            wanted["Tags"] = [{"Key": k, "Value": v} for k, v in properties["Tags"].items()]
        return self._put(wanted, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        wanted = {k: v for k, v in new.items() if k != "Tags"}
        return self._put(wanted | {"Name": physical_id, "Overwrite": True}, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("ssm").delete_parameter(Name=physical_id)

    def _put(self, wanted: Properties, request: Request) -> Made:
        request.client("ssm").put_parameter(**fit(wanted, "ssm", "PutParameter"))
        name = wanted["Name"]
        arn = request.arn("ssm", f"parameter/{name.removeprefix('/')}")
        return Made(name, {"Type": wanted["Type"], "Value": wanted["Value"], "Arn": arn})
