"""One forked model server process, from its plan to the end of its life."""

import os
import signal
import sys
import time
import traceback
from typing import NoReturn

from servable_local.container import lifeline
from servable_local.container.events import Events
from servable_local.container.model_server import grpc_server, http_server, warm_up
from servable_local.container.model_server.grpc_interface import GrpcInterface
from servable_local.container.model_server.plan import ServerPlan
from servable_local.container.model_server.rest import RestInterface
from servable_local.container.model_server.runtime import LoadError, Servable
from servable_local.container.model_server.servables import Servables
from servable_local.container.trouble import Trouble

# An event is one line of less than a page, so that those of several processes do not mix.
_LONGEST = 2000


def run(plan: ServerPlan, number: int, events: Events, *, parent_pid: int) -> NoReturn:
    """In the child of a fork. Loads, warms up, then listens: who reaches it reaches a ready one."""
    lifeline.die_with(parent_pid)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    try:
        servables = _load(plan, number)
        # gRPC first: whoever sees REST answer finds gRPC answering too.
        server = grpc_server.serve(GrpcInterface(servables), plan.grpc_port)
        http_server.serve(RestInterface(servables).answer, plan.rest_port)
        events.tell(ready=number, pid=os.getpid())
        server.wait_for_termination()
    except LoadError as error:
        events.tell(
            number=number, error=f"TensorFlow does not load the model: {str(error)[:_LONGEST]}"
        )
    except OSError as error:
        events.tell(number=number, error=f"the model server cannot listen: {error}")
    except BaseException:
        traceback.print_exc()
        events.tell(number=number, error="the model server failed; see the log")
    finally:
        os._exit(1)


def _load(plan: ServerPlan, number: int) -> Servables:
    loaded: dict[str, dict[int, Servable]] = {}
    for name, versions in plan.models.items():
        for version, folder in versions.items():
            began = time.monotonic()
            servable = Servable(
                folder,
                inter_op_threads=plan.inter_op_threads,
                intra_op_threads=plan.intra_op_threads,
                batching=plan.batching,
            )
            records = warm_up.replay(folder, servable)
            loaded.setdefault(name, {})[version] = servable
            took = time.monotonic() - began
            print(
                f"model {name} version {version}: loaded in {took:.2f} s, "
                f"{records} warm-up records replayed",
                file=sys.stderr,
                flush=True,
            )
    batching = plan.batching
    return Servables(
        loaded,
        trouble=Trouble(plan.trouble, number),
        max_batch_rows=batching.max_batch_size if batching else None,
    )
