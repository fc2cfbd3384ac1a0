"""What the kernel does to a container that takes too much: it kills its largest process."""

import asyncio
import sys
from typing import NoReturn

import psutil

_LOOK_EVERY_SECONDS = 0.25


async def keep(limit_mib: int) -> NoReturn:
    """From now on: kills the largest process below this one while all take more than `limit_mib`."""
    while True:
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
        taken = _taken_mib()
        if taken and sum(taken.values()) > limit_mib:
            pid = max(taken, key=lambda one: taken[one])
            print(
                f"out of memory: {sum(taken.values()):.0f} MiB of {limit_mib} MiB are taken; "
                f"process {pid} with {taken[pid]:.0f} MiB is killed",
                file=sys.stderr,
                flush=True,
            )
            try:
                psutil.Process(pid).kill()
            except psutil.NoSuchProcess:
                pass  # it was quicker


def _taken_mib() -> dict[int, float]:
    """Process -> its share of memory; pages that forks share are divided between them."""
    found: dict[int, float] = {}
    for child in psutil.Process().children(recursive=True):
        try:
            found[child.pid] = child.memory_full_info().pss / 2**20
        except psutil.Error:
            continue  # it has ended
    return found
