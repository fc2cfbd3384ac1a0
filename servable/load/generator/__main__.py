"""A generator's process, which reads and writes lines of JSON.

    python -m servable.load.generator alone
    python -m servable.load.generator master HOST PORT WORKERS    port 0: any; it says which
    python -m servable.load.generator worker HOST PORT

In: {"plan": …}, {"step": …}, {"stop": true}. Out: {"port": …}, {"ready": true}, {"progress": …},
{"done": …}, {"stopped": …}, {"error": …}. Ends when its standard input does, and so with whoever started it.
"""

import locust  # noqa: F401  (first: it patches the process for gevent)

# isort: split
import json
import logging
import os
import resource
import signal
import sys
from typing import Any

import gevent
from gevent.fileobject import FileObject
from locust.env import Environment
from pydantic import TypeAdapter

from servable.load.generator.coordinator import Coordinator, GeneratorError, refuse_http
from servable.load.generator.load_worker import HERE, Caller, LoadWorker
from servable.load.generator.prepared import MissingCredentialsError
from servable.load.measurement import LoadStep

_STEP: TypeAdapter[LoadStep | None] = TypeAdapter(LoadStep | None)
# For the message to those on other computers, who would otherwise wait for a minute.
_QUIT_SECONDS = 2.0


def main(role: str, *where: str) -> None:
    # Ctrl-C goes to the whole group: who started us decides when we end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.ERROR)
    # Each request of an open loop that waits holds a connection.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    environment = Environment(user_classes=[Caller], reset_stats=False)
    lines = FileObject(sys.stdin.fileno(), "rb", closefd=False)
    if role == "worker":
        gevent.spawn(_end_with, lines)
        worker = environment.create_worker_runner(where[0], int(where[1]))
        LoadWorker(worker)
        worker.send_message(HERE)
        worker.greenlet.join()
        return
    if role == "master":
        refuse_http()
        master = environment.create_master_runner(where[0], int(where[1]))
        _say(port=master.server.port)
        coordinator = Coordinator(master, int(where[2]))
    else:
        alone = environment.create_local_runner()
        coordinator = Coordinator(alone, 1)
        LoadWorker(alone)
        alone.send_message(HERE)
    gevent.spawn(_obey, lines, coordinator).join()


def _obey(lines: FileObject, coordinator: Coordinator) -> None:
    for line in lines:
        message = json.loads(line)
        # Beside this: a step can be stopped.
        gevent.spawn(_stop if "stop" in message else _do, message, coordinator)
    with gevent.Timeout(_QUIT_SECONDS, False):
        coordinator.quit()
    os._exit(0)


def _do(message: dict[str, Any], coordinator: Coordinator) -> None:
    try:
        if "plan" in message:
            coordinator.wait_for_workers()
            coordinator.plan(message["plan"])
            _say(ready=True)
        else:
            coordinator.step(message["step"], lambda found: _say(progress=found))
            _say(done=_STEP.dump_python(coordinator.last, mode="json"))
    except (GeneratorError, MissingCredentialsError) as error:
        _say(error=str(error))


def _stop(message: dict[str, Any], coordinator: Coordinator) -> None:
    """Stop the step and answer once, whether the step had ended by itself or not."""
    coordinator.stop()
    while coordinator.busy:
        gevent.sleep(0.02)
    _say(stopped=_STEP.dump_python(coordinator.last, mode="json"))


def _end_with(lines: FileObject) -> None:
    for _ in lines:
        pass
    os._exit(0)


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
