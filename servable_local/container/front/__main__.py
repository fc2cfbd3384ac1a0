"""The front's process: `python -m servable_local.container.front --parent-pid N --plan JSON`."""

import argparse
import asyncio
import json
import signal
import socket
from typing import Any

import uvloop

from servable_local.container import lifeline
from servable_local.container.events import Events
from servable_local.container.front.listening import Caller
from servable_local.container.front.routes import Routes
from servable_local.container.front.upstream import Gunicorn, ModelServers
from servable_local.container.ports import listening


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--parent-pid", type=int, required=True)
    arguments.add_argument("--plan", type=json.loads, required=True)
    given = arguments.parse_args()
    lifeline.die_with(given.parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan, events = given.plan, Events()
    routes = Routes(
        gunicorn=Gunicorn(plan["gunicorn"]) if plan["gunicorn"] else None,
        model_servers=ModelServers(plan["rest_ports"]),
        default_model=plan["default_model"],
        multi_model=plan["multi_model"],
        read_timeout_seconds=plan["read_timeout_seconds"],
    )
    try:
        listener = listening(plan["port"])
    except OSError as error:
        events.tell(error=f"port {plan['port']}: {error.strerror}")
        return
    uvloop.run(_serve(routes, listener, events))


async def _serve(routes: Routes, listener: socket.socket, events: Events) -> None:
    loop: Any = asyncio.get_running_loop()
    port = listener.getsockname()[1]
    server = await loop.create_server(
        lambda: Caller(routes.answer, port), sock=listener, backlog=512
    )
    events.tell(ready=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
