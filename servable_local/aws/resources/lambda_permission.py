"""AWS::Lambda::Permission: who may call a function, kept with it."""

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit


class LambdaPermission(ResourceType):
    type = "AWS::Lambda::Permission"
    # CloudFormation replaces a permission whatever changes in it.
    create_only = frozenset(
        {
            "Action",
            "EventSourceToken",
            "FunctionName",
            "FunctionUrlAuthType",
            "InvokedViaFunctionUrl",
            "Principal",
            "PrincipalOrgID",
            "SourceAccount",
            "SourceArn",
        }
    )

    def create(self, properties: Properties, request: Request) -> Made:
        statement = request.generate_name(100)
        asked = {**properties, "StatementId": statement}
        request.client("lambda").add_permission(**fit(asked, "lambda", "AddPermission"))
        return Made(statement, {"Id": statement})

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        functions = request.client("lambda")
        try:
            functions.remove_permission(
                FunctionName=properties["FunctionName"], StatementId=physical_id
            )
        except functions.exceptions.ResourceNotFoundException:
            pass  # its function went first and took it along
