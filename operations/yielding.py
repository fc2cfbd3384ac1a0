"""An endpoint on this machine yields to the generator beside it, which must not be late."""

import os

import psutil

# A third of a share: enough for the generator to come first, and an endpoint beside other work of this
# machine still gets its part. SCHED_IDLE yields more, and stands still beside any other work.
NICENESS = 5


def yielding(pid: int) -> None:
    """The process and all that it started. On Linux a priority is a thread's: each thread."""
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
                os.setpriority(os.PRIO_PROCESS, thread.id, NICENESS)
        except (psutil.Error, OSError):
            pass  # it, or one of its threads, has ended
