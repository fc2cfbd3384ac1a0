"""Renewal of connections, threads, locks and caches in forked children.

A child of os.fork shares its parent's sockets, has none of its threads, and inherits its locks
in their current state. Two processes on one connection read each other's responses, an executor
without its threads never finishes, and a lock that another thread held is never released.

`os.register_at_fork` renews every object in the child before any other code of the child runs.
The alternative is to compare the process ID at every call. That costs every call, needs another
lock against two threads that notice it at once, and leaves the parent's sockets open until then.
multiprocessing, Gunicorn and uWSGI run these hooks. A program that starts by exec or spawn
inherits nothing: sockets close on exec.
"""

import contextlib
import importlib
import os
import queue
import socket
import threading
import weakref
from typing import Any

# Not weakref.WeakMethod: its callback fails where it ends before its object.
_owners: "weakref.WeakSet[Any]" = weakref.WeakSet()
_sockets: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()
_pools: "weakref.WeakSet[PoolQueue]" = weakref.WeakSet()


def initialize_in_each_process(owner: Any) -> None:
    """Call the owner's `_initialize_process_state` now, and in every child forked while it exists."""
    owner._initialize_process_state()
    _owners.add(owner)


def close_in_children(connected: socket.socket) -> None:
    """Register a socket of this process: a forked child closes its copy and sends nothing on it."""
    _sockets.add(connected)


class PoolQueue(queue.LifoQueue):  # type: ignore[type-arg]
    """urllib3's queue of idle connections; empty, with a new lock, in a forked child.

    urllib3 empties a pool's queue when the pool is garbage-collected. In a child that would wait
    forever for a lock that a thread of the parent held at the fork.
    """

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__(maxsize)
        _pools.add(self)


# Held to create a boto3 client, and by a thread that forks. OpenSSL has locks that creating a TLS
# context takes: a child forked in the middle would wait forever for one. RLock: its owner may fork.
CLIENT_CREATION = threading.RLock()


def _prepare_fork() -> None:
    """Wait for what another thread does once, which a child could neither finish nor repeat."""
    CLIENT_CREATION.acquire()  # first: it is released even if an import fails
    # What the first prediction imports; every host name passes through idna.
    for module in ("encodings.idna", "numpy.ma", "servable_tensors.codecs") if _owners else ():
        importlib.import_module(module)


def _prepare_child() -> None:
    CLIENT_CREATION.release()
    for kept in list(_sockets):
        # Not close(): it waits for the file objects of a response that is being read. The
        # descriptor alone is closed, so TLS says no goodbye in the parent's name.
        descriptor = kept.detach()
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    _sockets.clear()
    for pool in list(_pools):
        queue.LifoQueue.__init__(pool, pool.maxsize)
    for owner in list(_owners):
        owner._initialize_process_state()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(
        before=_prepare_fork, after_in_parent=CLIENT_CREATION.release, after_in_child=_prepare_child
    )
