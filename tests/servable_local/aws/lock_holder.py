"""A process that holds the lock of a local AWS's folder, and does nothing else."""

import subprocess
import sys
from pathlib import Path

# Holds the lock until SIGTERM, or, with `deaf`, until SIGKILL.
_HOLDER = """
import fcntl, os, signal, sys, time
file = open(sys.argv[1] + "/aws.lock", "ab")
fcntl.flock(file, fcntl.LOCK_EX)
file.truncate(0); file.write(str(os.getpid()).encode()); file.flush()
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
time.sleep(60)
"""


def holder(folder: Path, kind: str = "hears") -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-S", "-E", "-c", _HOLDER, str(folder), kind]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process
