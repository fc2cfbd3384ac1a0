"""How a temporary resource is told from everything else, and an abandoned one from one in use.

Both marks must be there, the name's prefix and the tag: nothing else is ever deleted.
"""

import datetime
import os
import platform
import secrets
import uuid
from collections.abc import Mapping

import psutil

PREFIX = "servable-temporary-"
TAG = "servable:temporary"
OWNER = "servable:owner"
UNTIL = "servable:delete-after"


def new_name() -> str:
    return f"{PREFIX}{secrets.token_hex(6)}"


def tags(until: datetime.datetime) -> dict[str, str]:
    return {TAG: "load test", OWNER: owner(), UNTIL: until.isoformat(timespec="seconds")}


def owner() -> str:
    """This process, of all that ever ran on this machine."""
    return _owner(_machine(), os.getpid(), psutil.Process().create_time())


def is_abandoned(name: str, found: Mapping[str, str], now: datetime.datetime) -> bool:
    """Its time is over, or the process that made it has ended on this machine."""
    if not name.startswith(PREFIX) or TAG not in found:
        return False
    try:
        if datetime.datetime.fromisoformat(found[UNTIL]) <= now:
            return True
        machine, pid, _ = found[OWNER].rsplit("/", 2)
    except (KeyError, ValueError):
        return False  # not as we write them: not ours to delete
    if machine != _machine():
        return False  # it may run there
    try:
        return _owner(machine, int(pid), psutil.Process(int(pid)).create_time()) != found[OWNER]
    except psutil.NoSuchProcess:
        return True
    except (psutil.Error, ValueError):
        return False


def _machine() -> str:
    """Containers may all be called localhost: with the address of its network card."""
    return f"{platform.node()}-{uuid.getnode():012x}"


def _owner(machine: str, pid: int, began: float) -> str:
    return f"{machine}/{pid}/{began:.0f}"
