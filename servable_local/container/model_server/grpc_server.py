"""gRPC on a port of 127.0.0.1, with enough threads for a slow model."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from servable_local.container.answer import HttpError
from servable_local.container.model_server.grpc_interface import GrpcInterface
from servable_local.container.model_server.runtime import STATUSES
from servable_local.container.ports import HOST

# Calls computed at once. Of a slow model that many are under way together, as with the
# image's server, whose threads are four for each vCPU of a large machine.
THREADS = 64
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_CODE_OF_STATUS = {status: code for code, status in sorted(STATUSES.items(), reverse=True)}


def serve(interface: GrpcInterface, port: int) -> "grpc.Server":
    """Answers from now on. Raises `OSError` when the port cannot be had."""
    server = grpc.server(
        ThreadPoolExecutor(THREADS, thread_name_prefix="gRPC"),
        # As the image's server: requests of any size come in; the limit is the caller's.
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    for service, methods in interface.methods().items():
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                _refusing(method), request.FromString, lambda answer: answer.SerializeToString()
            )
            for name, (method, request) in methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    try:
        server.add_insecure_port(f"{HOST}:{port}")
    except RuntimeError as error:
        raise OSError(str(error)) from None
    server.start()
    return server


def _refusing(method: Callable[[Any], Any]) -> Callable[[Any, "grpc.ServicerContext"], Any]:
    def call(request: Any, context: "grpc.ServicerContext") -> Any:
        try:
            return method(request)
        except HttpError as refusal:
            code = _CODES[_CODE_OF_STATUS.get(refusal.status, 13)]
            context.abort(code, refusal.message)

    return call
