"""SageMaker's operations on the tags of what is hosted."""

from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.sagemaker.endpoint_api import EndpointApi


class SageMakerApi(EndpointApi):
    """All of hosting; the other operations of SageMaker remain moto's."""

    def add_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if not self._hosted(arn):
            return super().add_tags()
        for tag in self._get_param("Tags"):
            self.here.tags[arn][tag["Key"]] = tag["Value"]
        return self.list_tags()

    def list_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if not self._hosted(arn):
            return super().list_tags()
        tags = [{"Key": key, "Value": value} for key, value in self.here.tags[arn].items()]
        return ActionResult({"Tags": tags})

    def delete_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if not self._hosted(arn):
            return super().delete_tags()
        for key in self._get_param("TagKeys"):
            self.here.tags[arn].pop(key, None)
        return EmptyResult()

    def _hosted(self, arn: str) -> bool:
        return arn in self.here.tags
