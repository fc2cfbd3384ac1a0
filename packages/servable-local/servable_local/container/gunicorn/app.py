"""Gunicorn's routes, with Falcon as in the image: an archive's, or those of multi-model mode."""

import json
import os
import random
import re
import stat
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import falcon
import requests

from servable_local.container.compiled_packages import provide_compiled_packages
from servable_local.container.gunicorn.user_code import (
    Context,
    ContextUpTo219,
    Handler,
    UnsupportedTypeError,
    load_handler,
)
from servable_local.container.image_code import HEADER, MODEL_NAME, AttributesError, ImageCode
from servable_local.container.model_servers import LoadedModel, LoadedModels, call_supervisor
from servable_local.container.ports import HOST


class Ping:
    """The resource /ping, which reports on Gunicorn alone, not on the model servers."""

    def on_get(self, request: Any, response: Any) -> None:
        response.status = falcon.HTTP_200


@dataclass(frozen=True, kw_only=True)
class CodeResource:
    """A resource that calls handlers. `handler`: the archive's, or the container's own."""

    handler: Handler
    image: ImageCode
    timeout_seconds: int

    def call_handler(
        self,
        handler: Handler,
        request: Any,
        response: Any,
        ports: tuple[str, str],
        *,
        model: str | None = None,
        default_model: str = "",
        channel: object = None,
    ) -> None:
        """Call the handler; its result or exception is the response.

        `ports`: gRPC's, REST's. `model`: from the path in multi-model mode; None: from the header.
        """
        header = request.get_header(HEADER)
        try:
            # Up to 2.19 a ValueError, which Falcon turns into its own response.
            attributes = self.image.parse_python_attributes(header)
            path = self.image.build_model_path(attributes, default_model, model=model)
        except AttributesError as problem:
            reject(response, falcon.HTTP_400, str(problem))
            return
        context = Context(
            model_name=model or attributes.get("tfs-model-name"),
            model_version=attributes.get("tfs-model-version"),
            method=attributes.get("tfs-method"),
            rest_uri=f"http://{HOST}:{ports[1]}{path}",
            grpc_port=ports[0],
            channel=channel,
            custom_attributes=header,
            request_content_type=request.get_header("Content-Type") or falcon.MEDIA_JSON,
            accept_header=request.get_header("Accept") or falcon.MEDIA_JSON,
            content_length=request.content_length,
            timeout=self.timeout_seconds,
        )
        if not self.image.rewritten:
            context = ContextUpTo219(*context[:-1])
        try:
            response.text, response.content_type = handler(request.stream, context)
        except UnsupportedTypeError as problem:
            reject(response, falcon.HTTP_415, str(problem))
        except Exception as failure:
            if isinstance(failure, falcon.HTTPError) and self.image.rewritten:
                raise
            traceback.print_exc()
            reject(response, falcon.HTTP_500, str(failure))


@dataclass(frozen=True, kw_only=True)
class Invocations(CodeResource):
    """The resource /invocations. Each request gets random ports, separate for gRPC and REST."""

    default_model: str
    grpc_ports: Sequence[str]
    rest_ports: Sequence[str]
    _channels: dict[str, object] = field(default_factory=dict)

    def on_post(self, request: Any, response: Any) -> None:
        grpc_port = random.choice(self.grpc_ports)
        if grpc_port not in self._channels:
            # On first use, not in the master as in the image: its threads do not survive a fork.
            import grpc

            self._channels[grpc_port] = grpc.insecure_channel(f"{HOST}:{grpc_port}")
        ports, channel = (grpc_port, random.choice(self.rest_ports)), self._channels[grpc_port]
        self.call_handler(
            self.handler,
            request,
            response,
            ports,
            default_model=self.default_model,
            channel=channel,
        )

    def on_get(self, request: Any, response: Any) -> None:
        """Respond with an empty list of loaded models: the image has one resource for both modes."""
        if not self.image.rewritten:
            raise AttributeError("up to 2.19 there is no list outside of multi-model mode")
        response.text = "{}"

    def on_delete(self, request: Any, response: Any) -> None:
        """Fail with a TypeError, which Falcon answers with 500, as in the image."""
        raise TypeError("DELETE /invocations names no model")


def reject(response: Any, status: str, sentence: str) -> None:
    """Set the response to an error status with {"error": sentence}."""
    response.status, response.content_type = status, falcon.MEDIA_JSON
    response.text, response.data = None, json.dumps({"error": sentence}).encode()


@dataclass(frozen=True, kw_only=True)
class Models(CodeResource):
    """The resource /models and below, which loads, lists, calls, and unloads models.

    POST /models names a folder, and the code in it runs with the rights of the process. Every user
    of the computer can send that request; so the folder must belong to this user.
    """

    loaded: LoadedModels
    worker_class: str
    # As in the image, what a worker has imported once stays, whatever is unloaded.
    _handlers: dict[str, Handler] = field(default_factory=dict)

    def on_get(self, request: Any, response: Any, model: str | None = None) -> None:
        loaded = self.loaded.read_models()
        try:
            if model is None:
                states = {name: _request_status(entry).json() for name, entry in loaded.items()}
                response.text = json.dumps(states)
            elif self._reject_bad_name(model, response):
                pass
            elif model in loaded:
                response.text = json.dumps({"model": _request_status(loaded[model]).json()})
            else:
                yet = "not loaded yet" if self.image.rewritten else "loaded yet"
                reject(response, falcon.HTTP_404, f"Model {model} is {yet}.")
        except requests.RequestException as problem:
            status = falcon.HTTP_500 if model is None else falcon.HTTP_502
            reject(response, status, str(problem))

    def on_delete(self, request: Any, response: Any, model: str) -> None:
        if not self._reject_bad_name(model, response):
            self._call_supervisor(response, unload=model)

    def on_post(self, request: Any, response: Any, model: str | None = None) -> None:
        if model:
            self._invoke_model(request, response, model)
        elif "invocations" in request.uri:
            reject(response, falcon.HTTP_400, "Invocation request does not contain model name.")
        else:
            body = json.loads(request.stream.read())
            self._load_model(response, body["model_name"], body["url"])

    def _load_model(self, response: Any, model: str, url: str) -> None:
        if self._reject_bad_name(model, response):
            return
        if model in self.loaded.read_models():
            reject(response, falcon.HTTP_409, f"Model {model} is already loaded.")
            return
        try:
            # Not a Path: of "" that is this folder, and a number is none.
            if not os.path.exists(url):  # noqa: PTH110
                raise FileNotFoundError
            folder = Path(url).resolve(strict=True)
            code = find_code_folder(folder, model)
            why_foreign = explain_foreign_access(folder) or (
                explain_foreign_access(code.resolve()) if code.exists() else None
            )
            # At any depth, as the image looks; the model server takes only those of the folder itself.
            has_version = any(name.isdecimal() for _, names, _ in os.walk(folder) for name in names)
        except OSError:
            why_foreign, has_version = None, False
        if why_foreign is not None:
            reject(response, falcon.HTTP_403, why_foreign)
        elif not has_version:
            sentence = f"Could not find valid base path {url} for servable {model}"
            reject(response, falcon.HTTP_404, sentence)
        else:
            # Before the model server starts: if the code can't be imported, Falcon answers with 500.
            self._import_code(model, code)
            versions = {
                str(int(path.name)): str(path)
                for path in sorted(folder.iterdir())
                if path.name.isdecimal() and path.is_dir()
            }
            self._call_supervisor(response, load=model, path=str(folder), versions=versions)

    def _invoke_model(self, request: Any, response: Any, model: str) -> None:
        loaded = self.loaded.read_models()
        # Since 2.20 a model whose model server has ended is unloaded by the next request for it.
        # Only gevent's workers notice: for the others the process, a zombie, still exists.
        unloads_ended = self.image.rewritten and self.worker_class == "gevent"
        if unloads_ended and model in loaded and loaded[model].ended:
            call_supervisor(self.loaded.folder, unload=model)
            loaded = {}
        if model not in loaded:
            reject(response, falcon.HTTP_404, f"Model {model} is not loaded yet.")
            return
        if model not in self._handlers:  # another worker has loaded it
            self._import_code(model, find_code_folder(loaded[model].folder, model))
        # Both ports of one of its servers, unlike in the other mode.
        grpc, rest = random.choice(loaded[model].ports)
        handler = self._handlers[model]
        self.call_handler(handler, request, response, (str(grpc), str(rest)), model=model)

    def _import_code(self, model: str, code: Path) -> None:
        """Import the model's own code, if any, otherwise the container's. Raises `CodeError`."""
        inference, lib = code / "inference.py", code / "lib"
        packages = provide_compiled_packages(code)
        if lib.is_dir():
            sys.path += [str(path) for path in (*packages.paths, lib)]
        self._handlers[model] = self.handler
        if inference.is_file():
            self._handlers[model] = load_handler(inference, self.image, packages.problems)

    def _reject_bad_name(self, model: str, response: Any) -> bool:
        bad = self.image.rewritten and not (model and re.fullmatch(MODEL_NAME, model))
        if bad:
            reject(response, falcon.HTTP_400, f"invalid model_name: {model!r}")
        return bad

    def _call_supervisor(self, response: Any, **question: Any) -> None:
        answer = call_supervisor(self.loaded.folder, **question)
        response.status = falcon.code_to_http_status(answer["status"])
        response.text = answer["body"]


def find_code_folder(folder: Path, model: str) -> Path:
    """Return the code's folder of a model that is loaded from `folder`, even if it doesn't exist.

    The image looks into /opt/ml/models/NAME/model/code, whatever the URL names: a model of the
    archive ANOTHER/model that is loaded as NAME has none of its code. A folder with a name other
    than `model` isn't SageMaker's, and has its own code.
    """
    named = folder.parents[1] / model / "model" if folder.name == "model" else folder
    return named / "code"


def explain_foreign_access(folder: Path) -> str | None:
    """Return why a different user may have written to `folder`, or None if none can.

    `folder` has no links in it: see `Path.resolve`. Raises `OSError`.
    """
    for path in (folder, *folder.parents):
        status = path.stat()
        if status.st_uid not in (0, os.geteuid()):
            return (
                f"{path}: belongs to another user, whose code is not run; "
                "unpack the model into your own folder"
            )
        # In a sticky folder, such as /tmp, users can't replace the files of other users.
        if status.st_mode & stat.S_IWOTH and not (path != folder and status.st_mode & stat.S_ISVTX):
            return f"{path}: every user can write to it; remove that permission: chmod o-w {path}"
        if status.st_uid == os.geteuid() and not status.st_mode & stat.S_IXOTH:
            return None  # nobody else gets below it
    return None


def _request_status(model: LoadedModel) -> requests.Response:
    _, rest_port = model.ports[0]
    return requests.get(f"http://{HOST}:{rest_port}/v1/models/{model.name}", timeout=5.0)
