"""The process of an embedded AWS, seen from who starts it."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

STOP_SECONDS = 15.0


def spawn(
    folder: Path, port: int, *, with_parent: bool, seconds_per_minute: float | None
) -> "subprocess.Popen[bytes]":
    """`seconds_per_minute` None: a clock that is moved by hand."""
    command = [
        sys.executable,
        "-m",
        "servable_local.aws",
        "--folder",
        str(folder),
        "--port",
        str(port),
    ]
    command += ["--minute", "manual" if seconds_per_minute is None else str(seconds_per_minute)]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    with open(folder / "aws.log", "ab", opener=_owners_only) as log:
        return subprocess.Popen(
            [*command, "--with-parent"] if with_parent else command,
            stdin=subprocess.PIPE if with_parent else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Its own session: a Ctrl-C here is not meant for it, and it survives the shell.
            start_new_session=True,
            cwd=Path(__file__).resolve().parents[2],
            # Nothing of the user's ~/.aws: a profile that is set but not there is an error.
            env=kept
            | {
                "AWS_CONFIG_FILE": os.devnull,
                "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
                "AWS_EC2_METADATA_DISABLED": "true",
            },
        )


def _owners_only(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # one of an earlier release could be read by everybody
    return descriptor


def end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
