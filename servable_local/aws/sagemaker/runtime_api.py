"""InvokeEndpoint: answered by the container of the variant whose turn it is."""

import http.client
import json
import threading
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import unquote, urlparse

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import BaseResponse

from servable_local.aws.resources.constraints import refusal
from servable_local.aws.sagemaker import published_metrics
from servable_local.aws.sagemaker.container import Container
from servable_local.aws.sagemaker.endpoint import Endpoint
from servable_local.aws.sagemaker.errors import RuntimeValidationError
from servable_local.aws.sagemaker.fleet import Variant
from servable_local.aws.sagemaker.hosting import Hosting
from servable_local.aws.sagemaker.hostings import Hostings
from servable_local.aws.sagemaker.model_error import model_error
from servable_local.aws.sagemaker.published_metrics import Invocation
from servable_local.aws.sagemaker.queued_invocation import QueuedInvocation
from servable_local.aws.sagemaker.request_limits import problems
from servable_local.aws.sagemaker.surroundings import Route

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
        if "AsyncInferenceConfig" in endpoint.config:
            raise RuntimeValidationError(
                f"Endpoint {endpoint.name} is asynchronous: call InvokeEndpointAsync."
            )
        if route.shadow is not None:
            self._copy(here, endpoint, route.shadow, body)
        if endpoint.overhead_seconds:
            here.clock.pause(endpoint.overhead_seconds)
        path = self._path(endpoint, route)
        sent = here.clock.measured()
        status, headers, answer = _ask(route.variant.container, path, body, self._passed_on())
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
            kind="serverless" if route.variant.serverless else "real_time",
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

    def _copy(self, here: Hosting, endpoint: Endpoint, shadow: Variant, body: bytes) -> None:
        """Asks the shadow what was asked; its answer is for its metrics, and for nobody."""
        passed = self._passed_on()

        def ask() -> None:
            sent = here.clock.measured()
            status, _, _ = _ask(shadow.container, "/invocations", body, passed)
            seconds = here.clock.measured() - sent
            published_metrics.publish(
                here.cloudwatch.metrics,
                here.clock,
                Invocation(status, shadow.instance_count, seconds, 0.0),
                endpoint=endpoint.name,
                variant=shadow.name,
                config=None,
            )

        threading.Thread(target=ask, name=f"copy to {shadow.name}", daemon=True).start()

    def invoke_endpoint_async(self) -> TYPE_RESPONSE:
        here = self.hostings.of(self.current_account, self.region)
        endpoint, route = self._route(here, unquote(self.path.split("/")[2]))
        config = endpoint.config.get("AsyncInferenceConfig")
        if config is None:
            raise RuntimeValidationError(
                f"Endpoint {endpoint.name} is not asynchronous: call InvokeEndpoint."
            )
        if not self.headers.get("X-Amzn-SageMaker-InputLocation", "").startswith("s3://"):
            raise RuntimeValidationError("InputLocation: name an object as s3://bucket/key.")
        queued = QueuedInvocation.of(endpoint.name, config, self.headers)
        passed = {
            key: value
            for key, value in {
                "Content-Type": queued.content_type,
                "Accept": self.headers.get("X-Amzn-SageMaker-Accept"),
                _CUSTOM: self.headers.get(_CUSTOM),
            }.items()
            if value
        }

        def ask(body: bytes) -> tuple[int, str, bytes]:
            sent = here.clock.measured()
            status, headers, answer = _ask(route.variant.container, "/invocations", body, passed)
            published_metrics.publish(
                here.cloudwatch.metrics,
                here.clock,
                Invocation(status, route.variant.instance_count, here.clock.measured() - sent, 0.0),
                endpoint=endpoint.name,
                variant=route.variant.name,
                config=route.config_name,
                kind="asynchronous",
            )
            return status, headers.get("Content-Type", ""), answer

        threading.Thread(
            target=queued.run, args=(here.aws, here.clock, ask), name="queued", daemon=True
        ).start()
        shown = {"status": 202, "X-Amzn-SageMaker-OutputLocation": queued.output_location}
        if queued.failure_location:
            shown["X-Amzn-SageMaker-FailureLocation"] = queued.failure_location
        return 202, shown, json.dumps({"InferenceId": queued.inference_id})

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

    def _passed_on(self) -> dict[str, str]:
        return {key: self.headers[key] for key in _PASSED_ON if self.headers.get(key)}


def _ask(container: Container, path: str, body: bytes, passed: Mapping[str, str]) -> Answered:
    where = urlparse(container.url)
    connection = http.client.HTTPConnection(
        where.hostname or "127.0.0.1", where.port, timeout=_ANSWER_TIMEOUT_SECONDS
    )
    try:
        connection.request("POST", path, body, dict(passed))
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
