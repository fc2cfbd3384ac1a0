"""Multi-model mode: models are loaded, listed, asked and unloaded while the container runs.

Source: python_service.py in the image's public source
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import falcon

from servable_local.container import loaded_models
from servable_local.container.gunicorn.app import GrpcChannels, call
from servable_local.container.gunicorn.context import attributes_of, context
from servable_local.container.gunicorn.user_code import CodeError, Handler, load
from servable_local.container.loaded_models import LoadedModel, LoadedModels


class Models:
    """/models and what is below it. The supervisor starts and ends the model servers."""

    def __init__(self, handler: Handler, *, workers_share: Path, timeout_seconds: float) -> None:
        self._handler = handler
        self._folder = workers_share
        self._timeout_seconds = timeout_seconds
        self._loaded = LoadedModels(workers_share)
        self._handlers: dict[str, Handler] = {}
        self._channels = GrpcChannels()

    def on_get(self, request: Any, response: Any, model: str | None = None) -> None:
        loaded = self._loaded.all()
        if model is None:
            response.text = json.dumps({name: _status(one) for name, one in loaded.items()})
        elif model in loaded:
            response.text = json.dumps({"model": _status(loaded[model])})
        else:
            _error(response, falcon.HTTP_404, f"Model {model} is loaded yet.")

    def on_delete(self, request: Any, response: Any, model: str) -> None:
        if model not in self._loaded.all():
            _error(response, falcon.HTTP_404, f"Model {model} is not loaded yet")
            return
        self._handlers.pop(model, None)
        _relay(response, loaded_models.ask(self._folder, unload=model))

    def on_post(self, request: Any, response: Any, model: str | None = None) -> None:
        if model is not None:
            self._invoke(request, response, model)
        elif "invocations" in request.uri:
            _error(response, falcon.HTTP_400, "Invocation request does not contain model name.")
        else:
            wanted = json.loads(request.stream.read())
            asked = {"load": wanted["model_name"], "url": wanted["url"]}
            _relay(response, loaded_models.ask(self._folder, **asked))

    def _invoke(self, request: Any, response: Any, model: str) -> None:
        loaded = self._loaded.all()
        if model not in loaded:
            _error(response, falcon.HTTP_404, f"Model {model} is not loaded yet.")
            return
        # One of its servers, and that one's gRPC port: not drawn apart as in the other mode.
        grpc_port, rest_port = random.choice(loaded[model].ports)
        told = context(
            request,
            attributes=attributes_of(request),
            model=model,
            default_model=model,
            rest_port=str(rest_port),
            grpc_port=str(grpc_port),
            channel=None,
            timeout_seconds=self._timeout_seconds,
        )
        call(self._of(model, loaded[model]), request, response, told)

    def _of(self, model: str, loaded: LoadedModel) -> Handler:
        """The model's own code where it has some, else the container's."""
        if model not in self._handlers:
            code = loaded.folder / "code"
            inference = code / "inference.py"
            if (code / "lib").is_dir():
                sys.path.append(str(code / "lib"))
            try:
                own = load(inference) if inference.is_file() else self._handler
            except CodeError as error:
                raise falcon.HTTPInternalServerError(description=str(error)) from None
            self._handlers[model] = own
        return self._handlers[model]


def _status(model: LoadedModel) -> Any:
    import requests

    _, rest_port = model.ports[0]
    try:
        answer = requests.get(f"http://127.0.0.1:{rest_port}/v1/models/{model.name}", timeout=5)
        return answer.json()
    except requests.RequestException as problem:
        return {"error": str(problem)}


def _error(response: Any, status: str, sentence: str) -> None:
    response.status, response.text = status, json.dumps({"error": sentence})


def _relay(response: Any, answer: dict[str, Any]) -> None:
    response.status = falcon.code_to_http_status(answer["status"])
    response.text = json.dumps(answer["body"])
