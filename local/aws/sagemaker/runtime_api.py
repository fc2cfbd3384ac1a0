"""InvokeEndpoint: answered by the container of the variant whose turn it is."""

import http.client
from typing import ClassVar
from urllib.parse import unquote, urlparse

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import BaseResponse

from local.aws.resources.constraints import refusal
from local.aws.sagemaker import published_metrics
from local.aws.sagemaker.container import Container
from local.aws.sagemaker.endpoint import Endpoint
from local.aws.sagemaker.errors import RuntimeValidationError
from local.aws.sagemaker.hosting import Hosting
from local.aws.sagemaker.hostings import Hostings
from local.aws.sagemaker.model_error import model_error
from local.aws.sagemaker.published_metrics import Invocation
from local.aws.sagemaker.request_limits import problems
from local.aws.sagemaker.surroundings import Route

_ANSWER_TIMEOUT_SECONDS = 60.0
_CUSTOM = "X-Amzn-SageMaker-Custom-Attributes"
_PASSED_ON = ("Content-Type", "Accept", _CUSTOM, "X-Amzn-SageMaker-Inference-Id")
NO_ANSWER = 0
Answered = tuple[int, http.client.HTTPMessage, bytes]


class RuntimeApi(BaseResponse):
    """`hostings` is set when the server is built."""

    hostings: ClassVar[Hostings]
    use_raw_body = True

    def __init__(self) -> None:
        super().__init__(service_name="sagemaker-runtime")
        self.allow_request_decompression = False

    def invoke_endpoint(self) -> TYPE_RESPONSE:
        here = self.hostings.of(self.current_account, self.region)
        received = here.clock.measured()
        name = unquote(self.path.split("/")[2])
        body: bytes = self.raw_body
        if found := problems(self.headers, body):
            raise RuntimeValidationError(refusal(found))
        endpoint, route = self._route(here, name)
        if endpoint.overhead_seconds:
            here.clock.pause(endpoint.overhead_seconds)
        path = self._path(endpoint, route)
        sent = here.clock.measured()
        status, headers, answer = self._ask(route.variant.container, path, body)
        answered = here.clock.measured()
        published_metrics.publish(
            here.cloudwatch.metrics,
            here.clock,
            Invocation(
                status=status,
                instance_count=route.variant.instance_count,
                model_seconds=answered - sent,
                overhead_seconds=here.clock.measured() - received - (answered - sent),
            ),
            endpoint=endpoint.name,
            variant=route.variant.name,
            config=route.config_name,
        )
        if not 200 <= status < 300:
            return model_error(here.aws, endpoint.name, status, answer)
        shown = {
            "status": 200,
            "Content-Type": headers.get("Content-Type", ""),
            "x-Amzn-Invoked-Production-Variant": route.variant.name,
        }
        if _CUSTOM in headers:
            shown[_CUSTOM] = headers[_CUSTOM]
        return 200, shown, answer

    def invoke_endpoint_async(self) -> TYPE_RESPONSE:
        raise RuntimeValidationError("InvokeEndpointAsync is not emulated by the embedded AWS.")

    def _route(self, here: Hosting, name: str) -> tuple[Endpoint, Route]:
        endpoint = here.endpoints.get(name.lower())
        wanted = self.headers.get("X-Amzn-SageMaker-Target-Variant")
        try:
            route = endpoint.route(wanted) if endpoint else None
        except KeyError:
            raise RuntimeValidationError(
                f"Variant {wanted} not found for endpoint {name} of account {here.aws.account}."
            ) from None
        if endpoint is None or route is None:
            raise RuntimeValidationError(
                f"Endpoint {name} of account {here.aws.account} not found."
            )
        return endpoint, route

    def _path(self, endpoint: Endpoint, route: Route) -> str:
        """In multi-model mode the model is loaded first, where it was not: SageMaker's overhead."""
        target, models = self.headers.get("X-Amzn-SageMaker-Target-Model"), route.variant.models
        if target and models is None:
            raise RuntimeValidationError(
                f"Endpoint {endpoint.name} is not a multi-model endpoint: it takes no TargetModel."
            )
        if models is None:
            return "/invocations"
        if not target:
            raise RuntimeValidationError(
                f"Endpoint {endpoint.name} is a multi-model endpoint: name a TargetModel."
            )
        return models.path(target)

    def _ask(self, container: Container, path: str, body: bytes) -> Answered:
        where = urlparse(container.url)
        passed = {key: self.headers[key] for key in _PASSED_ON if self.headers.get(key)}
        connection = http.client.HTTPConnection(
            where.hostname or "127.0.0.1", where.port, timeout=_ANSWER_TIMEOUT_SECONDS
        )
        try:
            connection.request("POST", path, body, passed)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except TimeoutError:
            said = "Your invocation timed out while waiting for a response from container primary."
        except (OSError, http.client.HTTPException) as error:
            container.heal()
            said = f"The container closed the connection: {error}"
        finally:
            connection.close()
        return NO_ANSWER, http.client.HTTPMessage(), said.encode()
