"""InvokeEndpoint: answered by the container of the variant whose turn it is."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from typing import ClassVar
from urllib.parse import unquote, urlparse

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import BaseResponse

from servable_local.aws.errors import ValidationError
from servable_local.aws.loopback import Loopback
from servable_local.aws.resources.shapes import (
    broken_length,
    broken_pattern,
    refusal,
    service_model,
)
from servable_local.aws.sagemaker import published_metrics
from servable_local.aws.sagemaker.container import Container
from servable_local.aws.sagemaker.endpoint import HostedEndpoint, Route
from servable_local.aws.sagemaker.fleet import HostedVariant
from servable_local.aws.sagemaker.hosting import Hostings, RegionalHosting
from servable_local.aws.sagemaker.published_metrics import Invocation
from servable_local.aws.sagemaker.queued_invocation import QueuedInvocation

# botocore's sagemaker-runtime model: BodyBlob, max.
LARGEST_BODY_BYTES = 6_291_456


def broken_limits(headers: Mapping[str, str], body: bytes) -> list[str]:
    """Every constraint that is not met. Values are not repeated: they may be secrets."""
    found = list(_of_headers(headers))
    if len(body) > LARGEST_BODY_BYTES:
        found.append(
            "Value at 'body' failed to satisfy constraint: Member must have length less than "
            f"or equal to {LARGEST_BODY_BYTES}"
        )
    return found


def _of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    shape = service_model("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape
    for name, member in shape.members.items():
        value = headers.get(member.serialization.get("name", ""))
        if member.serialization.get("location") != "header" or value is None:
            continue
        where = name[0].lower() + name[1:]
        yield from broken_length(value, member, where)
        yield from broken_pattern(value, member, where)


def model_error(aws: Loopback, endpoint: str, status: int, answer: bytes) -> TYPE_RESPONSE:
    """`status` 0 where no answer came, as SageMaker says it."""
    said = answer.decode("utf-8", "replace")
    who = "client" if 400 <= status < 500 else "server"
    group = f"/aws/sagemaker/Endpoints/{endpoint}"
    error = {
        "Message": (
            f'Received {who} error ({status}) from primary with message "{said}". See '
            f"https://{aws.region}.console.aws.amazon.com/cloudwatch/home?region={aws.region}"
            f"#logEventViewer:group={group} in account {aws.account} for more information."
        ),
        "OriginalStatusCode": status,
        "OriginalMessage": said,
        "LogStreamArn": f"arn:aws:logs:{aws.region}:{aws.account}:log-group:{group}",
    }
    headers = {
        "status": 424,
        "Content-Type": "application/json",
        "x-amzn-ErrorType": "ModelError",
    }
    return 424, headers, json.dumps(error)


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
        if found := broken_limits(self.headers, body):
            raise ValidationError(refusal(found))
        endpoint, route = self._route(here, name)
        if "AsyncInferenceConfig" in endpoint.config:
            raise ValidationError(
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
        published_metrics.publish_invocation(
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

    def _copy(
        self, here: RegionalHosting, endpoint: HostedEndpoint, shadow: HostedVariant, body: bytes
    ) -> None:
        """Asks the shadow what was asked; its answer is for its metrics, and for nobody."""
        passed = self._passed_on()

        def ask() -> None:
            sent = here.clock.measured()
            status, _, _ = _ask(shadow.container, "/invocations", body, passed)
            seconds = here.clock.measured() - sent
            published_metrics.publish_invocation(
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
            raise ValidationError(
                f"Endpoint {endpoint.name} is not asynchronous: call InvokeEndpoint."
            )
        if not self.headers.get("X-Amzn-SageMaker-InputLocation", "").startswith("s3://"):
            raise ValidationError("InputLocation: name an object as s3://bucket/key.")
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
            published_metrics.publish_invocation(
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

    def _route(self, here: RegionalHosting, name: str) -> tuple[HostedEndpoint, Route]:
        endpoint = here.endpoints.get(name.lower())
        wanted = self.headers.get("X-Amzn-SageMaker-Target-Variant")
        try:
            route = endpoint.route(wanted) if endpoint else None
        except KeyError:
            raise ValidationError(
                f"Variant {wanted} not found for endpoint {name} of account {here.aws.account}."
            ) from None
        if endpoint is None or route is None:
            raise ValidationError(f"Endpoint {name} of account {here.aws.account} not found.")
        return endpoint, route

    def _path(self, endpoint: HostedEndpoint, route: Route) -> str:
        """In multi-model mode the model is loaded first, where it was not: SageMaker's overhead."""
        target, models = self.headers.get("X-Amzn-SageMaker-Target-Model"), route.variant.models
        if target and models is None:
            raise ValidationError(
                f"Endpoint {endpoint.name} is not a multi-model endpoint: it takes no TargetModel."
            )
        if models is None:
            return "/invocations"
        if not target:
            raise ValidationError(
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
