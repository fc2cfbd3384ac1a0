"""The real CDK CLI as a child process that ends with its caller's interest in it."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class CdkError(Exception):
    """The CLI exited with an error. `str()` names the command; its words were shown."""


def cdk(
    arguments: Sequence[str], environment: Mapping[str, str], show: Callable[[str], None]
) -> str:
    """Runs `cdk ARGUMENTS` in the project; `show` gets each line as it comes; all of them.

    In a process group of its own, which is ended whole when anything interrupts us: the
    CLI runs the app, and the app runs jsii.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    process = subprocess.Popen(
        ["cdk", *arguments],
        cwd=ROOT,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said = []
    try:
        assert process.stdout is not None  # asked for as a pipe
        for line in process.stdout:
            said.append(line)
            if line.strip():
                show(line.rstrip())
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if code != 0:
        raise CdkError(f"`cdk {' '.join(arguments)}` exited with code {code}; see its words above")
    return "".join(said)
