"""The routes that Gunicorn answers, with Falcon as in the image."""

import json
import random
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import falcon

from servable_local.container.gunicorn.context import attributes_of, context
from servable_local.container.gunicorn.user_code import Handler, ModelAnswerError
from servable_local.container.ports import HOST


class GrpcChannels:
    """One gRPC channel for each model server and worker process, with gRPC's own limits.

    Made when first asked for, and not in the master as in the image: gRPC's threads do not
    survive a fork.
    """

    def __init__(self) -> None:
        self._made: dict[str, object] = {}

    def __getitem__(self, port: str) -> object:
        if port not in self._made:
            import grpc

            self._made[port] = grpc.insecure_channel(f"{HOST}:{port}")
        return self._made[port]


class Ping:
    """Answers for Gunicorn alone, whatever the model servers do."""

    def on_get(self, request: Any, response: Any) -> None:
        response.status = falcon.HTTP_200


class Invocations:
    """POST /invocations. Ports are drawn for every request, gRPC and REST apart."""

    def __init__(
        self,
        handler: Handler,
        *,
        default_model: str,
        grpc_ports: Sequence[str],
        rest_ports: Sequence[str],
        timeout_seconds: float,
    ) -> None:
        self._handler = handler
        self._default_model = default_model
        self._grpc_ports, self._rest_ports = grpc_ports, rest_ports
        self._timeout_seconds = timeout_seconds
        self._channels = GrpcChannels()

    def on_post(self, request: Any, response: Any) -> None:
        grpc_port = random.choice(self._grpc_ports)
        told = context(
            request,
            # Outside the try: Falcon answers in its own form, as in the image.
            attributes=attributes_of(request),
            model=None,
            default_model=self._default_model,
            rest_port=random.choice(self._rest_ports),
            grpc_port=grpc_port,
            channel=self._channels[grpc_port],
            timeout_seconds=self._timeout_seconds,
        )
        call(self._handler, request, response, told)


def call(handler: Handler, request: Any, response: Any, told: Any) -> None:
    """What the handler returns or raises becomes the answer."""
    try:
        response.text, response.content_type = handler(request.stream, told)
    except falcon.HTTPError:
        raise
    except ModelAnswerError as answer:
        response.status = falcon.code_to_http_status(answer.status)
        response.data, response.content_type = answer.body, told.accept_header
    except Exception as failure:
        traceback.print_exc()
        response.text, response.content_type = None, falcon.MEDIA_JSON
        response.status = falcon.HTTP_500
        response.data = json.dumps({"error": str(failure)}).encode()


def application(routes: Mapping[str, object]) -> Any:
    """The WSGI application of these routes."""
    app = falcon.App()
    # Without a page of its own: an exception that no handler of ours sees is an empty 500
    # with Falcon's JSON, and its traceback goes to the log.
    for path, resource in routes.items():
        app.add_route(path, resource)
    return app
