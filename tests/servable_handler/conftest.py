"""The handler in front of a fake model server, in this process."""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import falcon
import numpy as np
import pytest

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks
from servable_handler.settings import Settings
from servable_tensors import wire
from servable_tensors.tensors import to_proto
from tests.servable_handler.fake_model_server import FakeModelServer

Ask = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as running:
        yield running


@pytest.fixture
def ask(server: FakeModelServer) -> Ask:
    """ask(body, "text/csv", accept_header="*/*", hooks=…, transport="rest"): status, body, type."""
    handlers: dict[tuple[Settings, Hooks], Handler] = {}

    def call(
        body: bytes,
        content_type: str = "application/json",
        *,
        hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
        settings: Settings = Settings(),  # noqa: B008  (frozen)
        **told: Any,
    ) -> tuple[int, bytes, str]:
        handler = handlers.setdefault((settings, hooks), Handler(settings, hooks, server.variables))
        told |= {"request_content_type": content_type, "content_length": len(body)}
        return answer_of(handler, body, server.context(**told))

    return call


def answer_of(handler: Handler, body: bytes, context: Any) -> tuple[int, bytes, str]:
    """Status, body and content type, as Falcon sends them."""
    try:
        answer, content_type = handler(io.BytesIO(body), context)
    except falcon.HTTPError as refusal:
        with pytest.raises(falcon.HTTPStatus) as raised:
            _ = refusal.headers
        status = raised.value
        text: Any = status.text
        code = falcon.http_status_to_code(status.status)
        return code, text, dict(status.headers or {})["Content-Type"]
    return 200, answer, content_type


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def predict_request(*, spec: Mapping[str, Any] = {}, **arrays: Any) -> bytes:
    request = wire.PredictRequest(model_spec=spec)
    for name, array in arrays.items():
        request.inputs[name].CopyFrom(to_proto(array))
    return bytes(request.SerializeToString())
