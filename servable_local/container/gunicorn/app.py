"""The routes that Gunicorn answers, with Falcon as in the image."""

import json
import random
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import falcon

from servable_local.container.gunicorn.context import CallTarget, context
from servable_local.container.gunicorn.user_code import Handler, UnsupportedTypeError
from servable_local.container.image_code import HEADER, AttributesError, ImageCode
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
    """/invocations. Ports are drawn for every request, gRPC and REST apart."""

    def __init__(
        self,
        handler: Handler,
        image: ImageCode,
        *,
        default_model: str,
        grpc_ports: Sequence[str],
        rest_ports: Sequence[str],
        timeout_seconds: int,
    ) -> None:
        self._handler, self._image = handler, image
        self._default_model = default_model
        self._grpc_ports, self._rest_ports = grpc_ports, rest_ports
        self._timeout_seconds = timeout_seconds
        self._channels = GrpcChannels()

    def on_post(self, request: Any, response: Any) -> None:
        grpc_port = random.choice(self._grpc_ports)
        call(
            self._handler,
            request,
            response,
            self._image,
            model=None,
            default_model=self._default_model,
            rest_port=random.choice(self._rest_ports),
            grpc_port=grpc_port,
            channel=self._channels[grpc_port],
            timeout_seconds=self._timeout_seconds,
        )

    def on_get(self, request: Any, response: Any) -> None:
        """The image has one resource for both modes: this is the list of loaded models."""
        if not self._image.rewritten:
            raise AttributeError("up to 2.19 there is no list outside of multi-model mode")
        response.text = "{}"

    def on_delete(self, request: Any, response: Any) -> None:
        """The image's wants a model's name here, and fails without one: Falcon's 500."""
        raise TypeError("DELETE /invocations names no model")


def call(
    handler: Handler, request: Any, response: Any, image: ImageCode, **where: Unpack[CallTarget]
) -> None:
    """Call the handler; its result or exception becomes the answer. `where`: see `context`."""
    try:
        # Up to 2.19 a ValueError: Falcon answers in its own form.
        attributes = image.attributes_for_python(request.get_header(HEADER))
        told = context(request, image, attributes=attributes, **where)
    except AttributesError as problem:
        refuse(response, falcon.HTTP_400, str(problem))
        return
    try:
        response.text, response.content_type = handler(request.stream, told)
    except UnsupportedTypeError as problem:
        refuse(response, falcon.HTTP_415, str(problem))
    except Exception as failure:
        if isinstance(failure, falcon.HTTPError) and image.rewritten:
            raise
        traceback.print_exc()
        refuse(response, falcon.HTTP_500, str(failure))


def refuse(response: Any, status: str, sentence: str) -> None:
    """{"error": sentence}."""
    response.status, response.content_type = status, falcon.MEDIA_JSON
    response.text, response.data = None, json.dumps({"error": sentence}).encode()


def application(routes: Mapping[str, object]) -> Any:
    """The WSGI application of these routes."""
    app = falcon.App()
    # Without a page of its own: an exception that no handler of ours sees is an empty 500
    # with Falcon's JSON, and its traceback goes to the log.
    for path, resource in routes.items():
        app.add_route(path, resource)
    return app
