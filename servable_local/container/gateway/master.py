"""Gunicorn's master: loads the code, then forks the workers that run it."""

import argparse
import json
import os
import signal
from pathlib import Path

from servable_local.container import lifeline
from servable_local.container.events import Events
from servable_local.container.gateway.app import Invocations, Ping, application
from servable_local.container.gateway.gunicorn_server import Gunicorn
from servable_local.container.gateway.models import Models
from servable_local.container.gateway.user_code import CodeError, Handler, load, pass_on
from servable_local.container.image_imports import give_imports_of_the_image
from servable_local.container.layout import Code


def run() -> None:
    """Returns only when the code cannot serve."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--parent-pid", type=int, required=True)
    arguments.add_argument("--plan", type=json.loads, required=True)
    given = arguments.parse_args()
    lifeline.die_with(given.parent_pid)
    # Ctrl-C goes to the whole group: the supervisor decides when we end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    events = Events()
    plan = given.plan
    folder = Path.cwd()
    events.tell(loading=True)
    try:
        inference = Path(plan["inference"]) if plan["inference"] else None
        code = Code(Path(plan["code"]), inference) if plan["code"] else None
        give_imports_of_the_image(code.import_paths if code else [])
        handler: Handler = load(inference) if inference else pass_on
    except CodeError as error:
        events.tell(error=str(error))
        return
    routes: dict[str, object] = {"/ping": Ping()}
    if plan["multi_model"]:
        models = Models(handler, workers_share=folder, timeout_seconds=plan["timeout_seconds"])
        routes |= {
            "/invocations": models,
            "/models": models,
            "/models/{model}": models,
            "/models/{model}/invoke": models,
        }
    else:
        routes["/invocations"] = Invocations(
            handler,
            default_model=os.environ["TFS_DEFAULT_MODEL_NAME"],
            grpc_ports=os.environ["TFS_GRPC_PORTS"].split(","),
            rest_ports=os.environ["TFS_REST_PORTS"].split(","),
            timeout_seconds=plan["timeout_seconds"],
        )
    # The code may have gone elsewhere; the socket belongs here.
    os.chdir(folder)
    Gunicorn(application(routes), plan["gunicorn"], events).run()
