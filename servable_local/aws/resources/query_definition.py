"""AWS::Logs::QueryDefinition."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit


class QueryDefinition(ResourceType):
    """Kept and described; there is no Logs Insights to run it (docs/local.md)."""

    type = "AWS::Logs::QueryDefinition"

    def create(self, properties: Properties, request: Request) -> Made:
        return self._put({}, properties, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        return self._put({"queryDefinitionId": physical_id}, new, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        request.client("logs").delete_query_definition(queryDefinitionId=physical_id)

    def _put(self, known: Properties, properties: Properties, request: Request) -> Made:
        wanted = {name[0].lower() + name[1:]: value for name, value in properties.items()}
        made = request.client("logs").put_query_definition(
            **fit({**wanted, **known}, "logs", "PutQueryDefinition")
        )
        query_id = str(made["queryDefinitionId"])
        return Made(query_id, {"QueryDefinitionId": query_id})
