"""Gunicorn's master, as the image starts it: loads the code, then forks the workers that run it."""

import builtins
import functools
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication

from servable_local.container.child_process import Events, begin_child, die_with
from servable_local.container.gunicorn.app import Invocations, Models, Ping, application
from servable_local.container.gunicorn.user_code import (
    CodeError,
    Handler,
    HidingError,
    give_imports_of_the_image,
    load,
    pass_on,
)
from servable_local.container.image_code import image_code

# Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
FOLDER = "/opt/ml/model"
# Python's own functions that take a path first; what is built on them (pathlib, glob, NumPy) follows.
_FUNCTIONS = ((builtins, "open"), (io, "open")) + tuple(
    (os, name) for name in ("open", "stat", "lstat", "access", "listdir", "scandir", "readlink")
)


def open_here(folder: Path) -> None:
    """From now on, `folder` stands for /opt/ml/model in this process, unless that exists."""
    if os.path.exists(FOLDER):  # noqa: PTH110  # its own function is replaced below
        return
    for module, name in _FUNCTIONS:
        setattr(module, name, _mapped(getattr(module, name), str(folder)))


def _mapped(function: Callable[..., Any], folder: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if arguments and isinstance(arguments[0], str | os.PathLike):
            named = os.fspath(arguments[0])
            if isinstance(named, str) and f"{named}/".startswith(f"{FOLDER}/"):
                arguments = (folder + named.removeprefix(FOLDER), *arguments[1:])
        return function(*arguments, **options)

    return call


class GunicornServer(BaseApplication):  # type: ignore[misc]
    """`run` returns never. Its socket lies in the folder in which it is called."""

    def __init__(
        self, app: Any, plan: Mapping[str, Any], events: Events, *, working_folder: Path
    ) -> None:
        """`working_folder`: that of the workers."""
        self._app, self._options, self._events = app, plan["gunicorn"], events
        self._socket = plan["socket"]
        self._working_folder = working_folder
        super().__init__()

    def load_config(self) -> None:
        own = {
            # A name and no path: a path of more than 107 letters is no address.
            "bind": f"unix:{self._socket}",
            "umask": 0o077,  # the socket's; 0 is Gunicorn's default
            "control_socket_disable": True,
            "when_ready": lambda server: self._events.tell(ready=True),
            "post_fork": self._begin_worker,
        }
        for name, value in (own | dict(self._options)).items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return self._app

    def _begin_worker(self, server: Any, worker: Any) -> None:
        die_with(os.getppid())
        os.chdir(self._working_folder)


def run() -> None:
    """Returns only when the code cannot serve."""
    plan, events = begin_child()
    image = image_code(plan["tensorflow"])
    folder = Path.cwd()
    events.tell(loading=True)
    # In the image it is /: with as little in it, but what the code writes here goes with the container.
    working_folder = folder / "work"
    working_folder.mkdir(exist_ok=True)
    os.chdir(working_folder)
    try:
        inference = Path(plan["inference"]) if plan["inference"] else None
        give_imports_of_the_image([Path(path) for path in plan["import_paths"]])
        if inference is not None:
            open_here(inference.parents[1])
        handler: Handler = load(inference, image, plan["problems"]) if inference else pass_on(image)
    except (CodeError, HidingError) as error:
        events.tell(error=str(error))
        return
    routes: dict[str, object] = {"/ping": Ping()}
    if plan["multi_model"]:
        models = Models(
            handler,
            image,
            workers_share=folder,
            timeout_seconds=plan["timeout_seconds"],
            worker_class=plan["gunicorn"]["worker_class"],
        )
        routes |= {
            "/invocations": models,
            "/models": models,
            "/models/{model}": models,
            "/models/{model}/invoke": models,
        }
    else:
        routes["/invocations"] = Invocations(
            handler=handler,
            image=image,
            default_model=os.environ["TFS_DEFAULT_MODEL_NAME"],
            grpc_ports=os.environ["TFS_GRPC_PORTS"].split(","),
            rest_ports=os.environ["TFS_REST_PORTS"].split(","),
            timeout_seconds=plan["timeout_seconds"],
        )
    chosen = Path.cwd()  # the code may have gone elsewhere
    os.chdir(folder)
    app = application(routes)
    GunicornServer(app, plan, events, working_folder=chosen).run()
