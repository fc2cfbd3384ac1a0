"""InvokeEndpoint: requests to the container of a variant, or of a component's copy, in turn."""

import functools
import http.client
import json
import re
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import ClassVar
from urllib.parse import unquote

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import BaseResponse

from servable_local.aws.errors import ValidationError
from servable_local.aws.loopback import Loopback, Regions, load_service_model
from servable_local.aws.resources.resource_type import (
    find_broken_limits,
    format_violation,
    format_violations,
)
from servable_local.aws.sagemaker.component import HostedComponent
from servable_local.aws.sagemaker.container import Answered, Container
from servable_local.aws.sagemaker.endpoint import HostedEndpoint, Route
from servable_local.aws.sagemaker.hosting import RegionalHosting
from servable_local.aws.sagemaker.published_metrics import (
    NO_CAPACITY_FAILURES,
    Invocation,
    publish_failure,
    publish_invocation,
)
from servable_local.aws.sagemaker.stored_invocations import (
    QueuedInvocation,
    is_captured,
    store_capture,
)

# botocore's sagemaker-runtime model: BodyBlob, max.
LARGEST_BODY_BYTES = 6_291_456
# The same model: InvokeEndpointAsync, Body, max.
LARGEST_INLINE_BYTES = 128_000
# The larger number that an environment's file acknowledges; AWS knows no such tag, and states 25 MB too:
# https://docs.aws.amazon.com/sagemaker/latest/dg/hosting-faqs.html (2026-11-22)
REQUEST_BYTES_TAG = "servable:request-bytes"
_ANSWER_TIMEOUT_SECONDS = 60.0
_COMPONENT = "X-Amzn-SageMaker-Inference-Component"
_CUSTOM = "X-Amzn-SageMaker-Custom-Attributes"
_PASSED_ON = ("Content-Type", "Accept", _CUSTOM, "X-Amzn-SageMaker-Inference-Id")
NO_ANSWER = 0


def list_violated_limits(
    headers: Mapping[str, str],
    body: bytes,
    *,
    name: str | None = None,
    operation: str = "InvokeEndpoint",
    largest_bytes: int = LARGEST_BODY_BYTES,
) -> list[str]:
    """Return every constraint of the operation's model that the request violates.

    `name` is the endpoint's. Values aren't repeated: they may be secrets.
    """
    problems: list[str] = []
    shape = load_service_model("sagemaker-runtime").operation_model(operation).input_shape
    for member_name, member in shape.members.items():
        location = member.serialization.get("location")
        value: str | int | None = None
        if location == "header":
            value = headers.get(member.serialization["name"])
        elif location == "uri":
            value = name
        where = member_name[0].lower() + member_name[1:]
        if value is None:
            continue
        if member.type_name == "integer":
            if not re.fullmatch(r"-?[0-9]+", str(value)):
                problems.append(format_violation(where, "be an integer"))
                continue
            value = int(value)
        problems += [format_violation(where, must) for must in find_broken_limits(value, member)]
    if len(body) > largest_bytes:
        must = f"have length less than or equal to {largest_bytes}"
        problems.append(format_violation("body", must))
    return problems


def build_model_error(aws: Loopback, group: str, status: int, answer: bytes) -> TYPE_RESPONSE:
    """Build SageMaker's ModelError. `status` 0: no response came; `group` is of the logs."""
    message = answer.decode("utf-8", "replace")
    who = "client" if 400 <= status < 500 else "server"
    error = {
        "Message": (
            f'Received {who} error ({status}) from primary with message "{message}". See '
            f"https://{aws.region}.console.aws.amazon.com/cloudwatch/home?region={aws.region}"
            f"#logEventViewer:group={group} in account {aws.account} for more information."
        ),
        "OriginalStatusCode": status,
        "OriginalMessage": message,
        "LogStreamArn": f"arn:aws:logs:{aws.region}:{aws.account}:log-group:{group}",
    }
    headers = {"status": 424, "Content-Type": "application/json", "x-amzn-ErrorType": "ModelError"}
    return 424, headers, json.dumps(error)


class RuntimeApi(BaseResponse):
    """The API of SageMaker's runtime. `hostings` is set when the server is built."""

    hostings: ClassVar[Regions[RegionalHosting]]
    use_raw_body = True

    def __init__(self) -> None:
        super().__init__(service_name="sagemaker-runtime")
        self.allow_request_decompression = False

    @property
    def hosting(self) -> RegionalHosting:
        return self.hostings.provide_service(self.current_account, self.region)

    def invoke_endpoint(self) -> TYPE_RESPONSE:
        here = self.hosting
        received = here.clock.measure_seconds()
        body: bytes = self.raw_body
        name = unquote(self.path.split("/")[2])
        hosted = here.endpoints.get(name.lower())
        tag = here.tags.get(hosted.arn, {}).get(REQUEST_BYTES_TAG, "") if hosted else ""
        largest = int(tag) if tag.isdecimal() else LARGEST_BODY_BYTES
        if problems := list_violated_limits(self.headers, body, name=name, largest_bytes=largest):
            raise ValidationError(format_violations(problems))
        endpoint, route = self._choose_route(here, name)
        if endpoint.kind == "asynchronous":
            problem = f"Endpoint {endpoint.name} is asynchronous: call InvokeEndpointAsync."
            raise ValidationError(problem)
        component = self._find_component(here, endpoint, route)
        passed = {key: self.headers[key] for key in _PASSED_ON if self.headers.get(key)}
        if route.shadow is not None:
            # The shadow's response only counts in its metrics.
            to = Route(route.shadow, None)
            copy = functools.partial(_invoke_container, here, endpoint, to, body, passed)
            _run_in_background(copy, f"copy to {route.shadow.name}")
        if endpoint.overhead_seconds:
            here.clock.pause(endpoint.overhead_seconds)
        path = self._prepare_path(endpoint, route)
        status, headers, answer = _invoke_container(
            here, endpoint, route, body, passed, path=path, received=received, component=component
        )
        if status == HTTPStatus.NOT_FOUND and route.variant.models is not None:
            route.variant.models.mark_unloaded(self.headers["X-Amzn-SageMaker-Target-Model"])
        if not 200 <= status < 300:
            logs = "InferenceComponents" if component else "Endpoints"
            group = f"/aws/sagemaker/{logs}/{(component or endpoint).name}"
            return build_model_error(here.aws, group, status, answer)
        if endpoint.capture is not None and is_captured(endpoint.capture):
            put = functools.partial(
                store_capture,
                here.aws,
                endpoint.capture,
                here.clock.now(),
                endpoint=endpoint.name,
                variant=route.variant.name,
                headers=passed,
                request=(self.headers.get("Content-Type", ""), body),
                answer=(headers.get("Content-Type", ""), answer),
            )
            _run_in_background(put, "data capture")
        shown = {
            "status": 200,
            "Content-Type": headers.get("Content-Type", ""),
            "x-Amzn-Invoked-Production-Variant": route.variant.name,
        }
        if _CUSTOM in headers:
            shown[_CUSTOM] = headers[_CUSTOM]
        return 200, shown, answer

    def invoke_endpoint_async(self) -> TYPE_RESPONSE:
        here = self.hosting
        name, inline = unquote(self.path.split("/")[2]), bytes(self.raw_body)
        problems = list_violated_limits(
            self.headers,
            inline,
            name=name,
            operation="InvokeEndpointAsync",
            largest_bytes=LARGEST_INLINE_BYTES,
        )
        if problems:
            raise ValidationError(format_violations(problems))
        endpoint, route = self._choose_route(here, name)
        config = endpoint.config.get("AsyncInferenceConfig")
        if config is None:
            problem = f"Endpoint {endpoint.name} is not asynchronous: call InvokeEndpoint."
            raise ValidationError(problem)
        location = self.headers.get("X-Amzn-SageMaker-InputLocation", "")
        if inline and location:
            raise ValidationError("Body and InputLocation: provide exactly one of them.")
        if not inline and not location.startswith("s3://"):
            raise ValidationError("InputLocation must be an S3 URI such as s3://bucket/key.")
        queued = QueuedInvocation(endpoint.name, config, self.headers, inline)
        headers = {
            "Content-Type": queued.content_type,
            "Accept": self.headers.get("X-Amzn-SageMaker-Accept"),
            _CUSTOM: self.headers.get(_CUSTOM),
        }
        passed = {key: value for key, value in headers.items() if value}

        def invoke_container(body: bytes) -> tuple[int, str, bytes]:
            live = endpoint.wait_for_route(route.variant.name)
            if live is None:
                return NO_ANSWER, "", b"The endpoint was deleted."
            status, headers, answer = _invoke_container(here, endpoint, live, body, passed)
            return status, headers.get("Content-Type", ""), answer

        count = functools.partial(
            publish_failure,
            here.cloudwatch.metrics,
            here.clock,
            dimensions={"EndpointName": endpoint.name, "VariantName": route.variant.name},
        )
        endpoint.queue[queued.number] = here.clock.now()

        def run_queued() -> None:
            queued.run(here.aws, here.clock, invoke_container, count)
            del endpoint.queue[queued.number]

        _run_in_background(run_queued, "queued")
        shown = {"status": 202, "X-Amzn-SageMaker-OutputLocation": queued.output_location}
        if queued.failure_location:
            shown["X-Amzn-SageMaker-FailureLocation"] = queued.failure_location
        return 202, shown, json.dumps({"InferenceId": queued.inference_id})

    def _choose_route(self, here: RegionalHosting, name: str) -> tuple[HostedEndpoint, Route]:
        endpoint = here.endpoints.get(name.lower())
        variant = self.headers.get("X-Amzn-SageMaker-Target-Variant")
        try:
            route = endpoint.choose_route(variant) if endpoint else None
        except KeyError:
            raise ValidationError(
                f"Variant {variant} not found for endpoint {name} of account {here.aws.account}."
            ) from None
        if endpoint is None or route is None:
            raise ValidationError(f"Endpoint {name} of account {here.aws.account} not found.")
        return endpoint, route

    def _find_component(
        self, here: RegionalHosting, endpoint: HostedEndpoint, route: Route
    ) -> HostedComponent | None:
        """Return the request's component, which has a copy; None for an endpoint with models.

        Messages as observed: https://github.com/BerriAI/litellm (2026, two of them) and the blog
        post of instances.py (2024-12-03, no capacity); the one for a missing component is ours.
        """
        name = self.headers.get(_COMPONENT)
        if route.variant.placement is None:
            if name:
                raise ValidationError(
                    "Inference Component Name header is not allowed for endpoints to which you dont plan to "
                    "deploy inference components. Please remove the Inference Component Name header and try "
                    "again."
                )
            return None
        if not name:
            raise ValidationError(
                "Inference Component Name header is required for endpoints to which you plan to deploy "
                "inference components. Please include Inference Component Name header or consider using "
                "SageMaker models."
            )
        component = here.components.get(name.lower())
        if component is None or component.endpoint is not endpoint:
            problem = f"Inference Component {name} of endpoint {endpoint.name} not found."
            raise ValidationError(problem)
        if component.pick() is None:
            store, of = here.cloudwatch.metrics, {"InferenceComponentName": component.name}
            publish_failure(store, here.clock, NO_CAPACITY_FAILURES, dimensions=of)
            raise ValidationError(
                "Inference Component has no capacity to process this request. ApplicationAutoScaling may be "
                "in-progress (if configured) or try to increase the capacity by invoking "
                "UpdateInferenceComponentRuntimeConfig API."
            )
        return component

    def _prepare_path(self, endpoint: HostedEndpoint, route: Route) -> str:
        """Return the request's path in the container, after loading a target model."""
        target, models = self.headers.get("X-Amzn-SageMaker-Target-Model"), route.variant.models
        if target and models is None:
            raise ValidationError(
                f"Endpoint {endpoint.name} is not a multi-model endpoint: it does not accept TargetModel."
            )
        if models is None:
            return "/invocations"
        if not target:
            problem = f"Endpoint {endpoint.name} is a multi-model endpoint: pass TargetModel."
            raise ValidationError(problem)
        return models.prepare_path(target)


def _run_in_background(work: Callable[[], object], name: str) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()


def _invoke_container(
    here: RegionalHosting,
    endpoint: HostedEndpoint,
    route: Route,
    body: bytes,
    passed: Mapping[str, str],
    *,
    path: str = "/invocations",
    received: float | None = None,
    component: HostedComponent | None = None,
) -> Answered:
    """Invoke the container and publish metrics. `received`: when SageMaker got the request."""
    sent = here.clock.measure_seconds()
    instances = component.copies if component else route.variant.instances
    status, headers, answer = _post_to_container(instances.pick(), path, body, passed)
    model_seconds = here.clock.measure_seconds() - sent
    elsewhere = 0.0 if received is None else here.clock.measure_seconds() - received - model_seconds
    publish_invocation(
        here.cloudwatch.metrics,
        here.clock,
        Invocation(status, instances.serving_count, model_seconds, elsewhere),
        dimensions={"EndpointName": endpoint.name, "VariantName": route.variant.name},
        config=route.config_name,
        kind=endpoint.kind,
        pool=route.variant.choose_instance_type(),
        component=component.name if component else None,
    )
    return status, headers, answer


def _post_to_container(
    container: Container, path: str, body: bytes, passed: Mapping[str, str]
) -> Answered:
    try:
        return container.post(path, body, passed, timeout_seconds=_ANSWER_TIMEOUT_SECONDS)
    except TimeoutError:
        reason = "Your invocation timed out while waiting for a response from container primary."
    except (OSError, http.client.HTTPException) as error:
        container.restart_if_ended()
        reason = f"The container closed the connection: {error}"
    return NO_ANSWER, http.client.HTTPMessage(), reason.encode()
