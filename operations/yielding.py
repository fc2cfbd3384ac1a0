"""An endpoint on this machine yields to the generator beside it, which must not be late."""

import os

import psutil

# Where the system has no class for what runs in nobody's way.
NICENESS = 19


def yielding(pid: int) -> None:
    """The process and all that it started: whatever else wants a core gets it at once.

    Linux: SCHED_IDLE, of each thread, for a priority is a thread's. What they start inherits it.
    """
    try:
        head = psutil.Process(pid)
        every = [head, *head.children(recursive=True)]
    except psutil.Error:
        return  # it has ended
    for one in every:
        try:
            if hasattr(os, "SCHED_IDLE"):
                for thread in one.threads():
                    os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
            else:
                one.nice(NICENESS)
        except (psutil.Error, OSError):
            pass  # it, or one of its threads, has ended
