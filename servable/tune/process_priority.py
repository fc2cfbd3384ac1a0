"""An endpoint on this machine yields to the generator beside it, which must not be late."""

import os

import psutil

# A third of a share: enough for the generator to come first, and an endpoint beside other work of this
# machine still gets its part.
NICENESS = 5


def yielding(pid: int, *, entirely: bool = False) -> None:
    """The process and all that it started. On Linux a priority is a thread's: each thread.

    `entirely`: whatever else wants a core gets it at once (SCHED_IDLE). Beside other work such an
    endpoint stands still: for a quiet machine.
    """
    try:
        head = psutil.Process(pid)
        every = [head, *head.children(recursive=True)]
    except psutil.Error:
        return  # it has ended
    for one in every:
        try:
            if not psutil.LINUX:
                one.nice(NICENESS)
                continue
            for thread in one.threads():
                if entirely:
                    os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
                else:
                    os.setpriority(os.PRIO_PROCESS, thread.id, NICENESS)
        except (psutil.Error, OSError):
            pass  # it, or one of its threads, has ended
