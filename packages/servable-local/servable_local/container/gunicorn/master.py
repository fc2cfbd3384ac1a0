"""Gunicorn's master, started as in the image: loads the code, then forks the workers that run it."""

import builtins
import functools
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import falcon
from gunicorn.app.base import BaseApplication

from servable_local.container.child_process import Events, begin_child, exit_with_parent
from servable_local.container.gunicorn.app import Invocations, Models, Ping
from servable_local.container.gunicorn.user_code import (
    CodeError,
    build_default_handler,
    load_handler,
    restrict_imports,
)
from servable_local.container.image_code import find_image_code
from servable_local.container.model_servers import LoadedModels

# Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
FOLDER = "/opt/ml/model"
# Python's own functions that take a path first; what is built on them (pathlib, glob, NumPy) follows.
_FUNCTIONS = ((builtins, "open"), (io, "open")) + tuple(
    (os, name) for name in ("open", "stat", "lstat", "access", "listdir", "scandir", "readlink")
)


def map_model_folder(folder: Path) -> None:
    """Make `folder` stand for /opt/ml/model in this process, unless that exists."""
    if os.path.exists(FOLDER):  # noqa: PTH110  # its own function is replaced below
        return
    for module, name in _FUNCTIONS:
        setattr(module, name, _map_paths(getattr(module, name), str(folder)))


def _map_paths(function: Callable[..., Any], folder: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call_with_mapped_path(*arguments: Any, **options: Any) -> Any:
        if arguments and isinstance(arguments[0], str | os.PathLike):
            named = os.fspath(arguments[0])
            if isinstance(named, str) and f"{named}/".startswith(f"{FOLDER}/"):
                arguments = (folder + named.removeprefix(FOLDER), *arguments[1:])
        return function(*arguments, **options)

    return call_with_mapped_path


class GunicornServer(BaseApplication):  # type: ignore[misc]
    """A server whose `run` never returns. Its socket is in the working folder of the call."""

    def __init__(
        self, app: Any, plan: Mapping[str, Any], events: Events, *, working_folder: Path
    ) -> None:
        """Initialize. `working_folder` is that of the workers."""
        self._app, self._plan, self._events = app, plan, events
        self._working_folder = working_folder
        super().__init__()

    def load_config(self) -> None:
        own = {
            # A name, because a path of more than 107 characters isn't a valid socket address.
            "bind": f"unix:{self._plan['socket']}",
            "umask": 0o077,  # the socket's; 0 is Gunicorn's default
            "control_socket_disable": True,
            "when_ready": lambda server: self._events.report(ready=True),
            "post_fork": self._begin_worker,
        }
        for name, value in (own | self._plan["gunicorn"]).items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return self._app

    def _begin_worker(self, server: Any, worker: Any) -> None:
        exit_with_parent(os.getppid())
        os.chdir(self._working_folder)


def run_gunicorn() -> None:
    """Run Gunicorn. Return only if the code can't serve."""
    plan, events = begin_child()
    image = find_image_code(plan["tensorflow"])
    folder = Path.cwd()
    events.report(loading=True)
    # In the image it is /: with as little in it, but what the code writes here goes with the container.
    working_folder = folder / "work"
    working_folder.mkdir(exist_ok=True)
    os.chdir(working_folder)
    try:
        inference = Path(plan["inference"]) if plan["inference"] else None
        restrict_imports([Path(path) for path in plan["import_paths"]])
        if inference is not None:
            map_model_folder(inference.parents[1])
            handler = load_handler(inference, image, plan["problems"])
        else:
            handler = build_default_handler(image)
    except CodeError as error:
        events.report(error=str(error))
        return
    common = {"handler": handler, "image": image, "timeout_seconds": plan["timeout_seconds"]}
    routes: dict[str, object] = {"/ping": Ping()}
    if plan["multi_model"]:
        worker_class = plan["gunicorn"]["worker_class"]
        models = Models(**common, loaded=LoadedModels(folder), worker_class=worker_class)
        paths = ("/invocations", "/models", "/models/{model}", "/models/{model}/invoke")
        routes |= dict.fromkeys(paths, models)
    else:
        routes["/invocations"] = Invocations(
            **common,
            default_model=os.environ["TFS_DEFAULT_MODEL_NAME"],
            grpc_ports=os.environ["TFS_GRPC_PORTS"].split(","),
            rest_ports=os.environ["TFS_REST_PORTS"].split(","),
        )
    chosen = Path.cwd()  # the code may have gone elsewhere
    os.chdir(folder)
    # Without an error handler: an exception that ours don't see is an empty 500 with Falcon's
    # JSON, and its traceback goes to the log.
    app = falcon.App()
    for path, resource in routes.items():
        app.add_route(path, resource)
    GunicornServer(app, plan, events, working_folder=chosen).run()
