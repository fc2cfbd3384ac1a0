"""The routes that Gunicorn answers, with Falcon as in the image."""

import json
import random
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import falcon

from servable_local.container.gunicorn.context import CallTarget, context
from servable_local.container.gunicorn.user_code import Handler, UnsupportedTypeError
from servable_local.container.image_code import HEADER, AttributesError, ImageCode
from servable_local.container.ports import HOST


class Ping:
    """Answers for Gunicorn alone, whatever the model servers do."""

    def on_get(self, request: Any, response: Any) -> None:
        response.status = falcon.HTTP_200


@dataclass(frozen=True, kw_only=True)
class Invocations:
    """/invocations. Ports are drawn for every request, gRPC and REST apart."""

    handler: Handler
    image: ImageCode
    default_model: str
    grpc_ports: Sequence[str]
    rest_ports: Sequence[str]
    timeout_seconds: int
    _channels: dict[str, object] = field(default_factory=dict)

    def on_post(self, request: Any, response: Any) -> None:
        grpc_port = random.choice(self.grpc_ports)
        call(
            self.handler,
            request,
            response,
            self.image,
            model=None,
            default_model=self.default_model,
            rest_port=random.choice(self.rest_ports),
            grpc_port=grpc_port,
            channel=self._channel(grpc_port),
            timeout_seconds=self.timeout_seconds,
        )

    def _channel(self, port: str) -> object:
        """The gRPC channel of a model server in this worker process, with gRPC's own limits.

        Opened when first asked for, and not in the master as in the image: gRPC's threads do not
        survive a fork.
        """
        if port not in self._channels:
            import grpc

            self._channels[port] = grpc.insecure_channel(f"{HOST}:{port}")
        return self._channels[port]

    def on_get(self, request: Any, response: Any) -> None:
        """The image has one resource for both modes: this is the list of loaded models."""
        if not self.image.rewritten:
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
        call_context = context(request, image, attributes=attributes, **where)
    except AttributesError as problem:
        refuse(response, falcon.HTTP_400, str(problem))
        return
    try:
        response.text, response.content_type = handler(request.stream, call_context)
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
