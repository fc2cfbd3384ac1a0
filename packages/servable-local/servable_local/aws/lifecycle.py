"""Start, find, and end the local AWS, and keep what runs in its state file.

A lock next to that file proves that it runs. The kernel releases the lock when the process ends, also
by a kill -9, so that a state file left behind isn't believed.
"""

import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from servable_local.aws.clock import SECONDS_PER_MINUTE
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.loopback import HEALTH_PATH, Access
from servable_local.protection import create_private_folder, open_private, write_atomically

_RETRY_SECONDS = 1.0
# Exit codes of a local AWS that doesn't start.
EXIT_HELD = 3
EXIT_PORT_TAKEN = 4
_STATE = ("pid", "port", "url", "started", "secret_access_key", "seconds_per_minute",
          "most_containers")  # fmt: skip


def find_default_folder() -> Path:
    """Return `.servable` in the working folder. The command `servable` uses its project's."""
    return Path.cwd() / ".servable"


class StateFile:
    """The file `aws.json` in a folder, with `aws.lock` next to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "aws.json"
        self._lock_path = folder / "aws.lock"

    def write(self, aws: LocalAws) -> None:
        """Write the state, only readable by its owner: a reader can run code as the owner."""
        state = {name: getattr(aws, name) for name in _STATE}
        write_atomically(self.path, json.dumps(state, indent=2) + "\n")

    def read(self) -> LocalAws | None:
        """Return the running local AWS, or None if none runs or its process has ended."""
        if not self.is_held():
            return None
        try:
            state = json.loads(self.path.read_text(encoding="utf-8"))
            del state["port"]  # which is in the URL
            return LocalAws(folder=self.folder, **state)
        except (OSError, ValueError, TypeError, KeyError):
            return None  # not written yet

    def find_holder(self) -> int | None:
        """Return the process that holds the lock, regardless of its state file."""
        try:
            return int(self._lock_path.read_bytes()) if self.is_held() else None
        except (OSError, ValueError):
            return None

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def is_held(self) -> bool:
        try:
            with self._lock_path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextlib.contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the lock during the block. Yields False if a different process holds it."""
        create_private_folder(self.folder)
        # `is_held` of another process holds it for an instant; a local AWS as long as it runs.
        deadline = time.monotonic() + _RETRY_SECONDS
        with self._lock_path.open("ab") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        yield False
                        return
                    time.sleep(0.02)
            file.truncate(0)
            file.write(str(os.getpid()).encode())
            file.flush()
            yield True


def write_client_settings(folder: Path) -> None:
    """Write the settings anew, and delete what clients left there for an earlier run."""
    shutil.rmtree(folder, ignore_errors=True)
    create_private_folder(folder)
    # The CDK CLI stores there which account an access key belongs to.
    create_private_folder(folder / "cdk")
    # By default, boto3 and the AWS CLI presign S3 URLs with Signature Version 2.
    config = "[default]\ns3 =\n    signature_version = s3v4\n"
    (folder / "config").write_text(config, encoding="utf-8")
    (folder / "credentials").write_text("", encoding="utf-8")


STOP_SECONDS = 15.0
_START_SECONDS = 60.0
# With less free space, the log may not contain the reason.
_LEAST_FREE_BYTES = 1_000_000
_POLL_SECONDS = 0.02


def spawn_process(
    folder: Path,
    port: int,
    seconds_per_minute: float | None,
    most_containers: int | None = None,
    *,
    with_parent: bool,
) -> "subprocess.Popen[bytes]":
    """Start the process. `seconds_per_minute` None: a clock advanced by hand."""
    minute = "manual" if seconds_per_minute is None else str(seconds_per_minute)
    command = [sys.executable, "-m", "servable_local.aws", "--folder", str(folder)]
    command += ["--port", str(port), "--minute", minute]
    if most_containers is not None:
        command += ["--containers", str(most_containers)]
    # Without the user's ~/.aws: a missing profile would be an error.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    files = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    environment |= dict.fromkeys(files, os.devnull) | {"AWS_EC2_METADATA_DISABLED": "true"}
    with open(folder / "aws.log", "ab", opener=open_private) as log:
        return subprocess.Popen(
            [*command, "--with-parent"] if with_parent else command,
            stdin=subprocess.PIPE if with_parent else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # In its own session, it isn't ended by a Ctrl-C here, or with the shell.
            start_new_session=True,
            cwd=Path(__file__).resolve().parents[2],
            env=environment,
        )


def stop_process(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class LocalAwsStartError(Exception):
    """The local AWS didn't start. `str()` is the whole message for the user."""


def up(
    *,
    port: int = 0,
    folder: Path | None = None,
    seconds_per_minute: float = SECONDS_PER_MINUTE,
    most_containers: int | None = None,
) -> LocalAws:
    """Return the local AWS of a folder (None: `.servable` here), started if it isn't running.

    `seconds_per_minute`: how long a minute of its alarms and deployments lasts;
    `most_containers`: the maximum per variant, whatever its instance count (None: 1, or 0 if
    containers can't run: endpoints are then in service and reject every request). It outlives this
    process and its shell; `down` ends it. Raises `LocalAwsStartError`.
    """
    state_file = StateFile(folder or find_default_folder())
    try:
        if running := _find_running(state_file):
            return replace(running, already_up=True)
        _require_moto()
        create_private_folder(state_file.folder)
    except PermissionError:
        raise LocalAwsStartError(
            f"{state_file.folder} belongs to another user and cannot be made private; "
            "remove it, or work in your own copy of the project"
        ) from None
    folder = state_file.folder
    process = spawn_process(folder, port, seconds_per_minute, most_containers, with_parent=False)
    try:
        aws = _wait_until_ready(process, state_file, port)
    except BaseException:
        stop_process(process)  # Ctrl-C while it starts leaves nothing
        raise
    if aws.already_up:
        stop_process(process)  # otherwise it could get the other's lock later
    return aws


def status(*, folder: Path | None = None) -> LocalAws | None:
    """Return the running local AWS, or None."""
    return _find_running(StateFile(folder or find_default_folder()))


def down(*, folder: Path | None = None) -> bool:
    """Stop the local AWS and its endpoints. Return False if none ran. Idempotent."""
    state_file = StateFile(folder or find_default_folder())
    pid = state_file.find_holder() or _find_starting_process(state_file.folder)
    if pid is None:
        state_file.remove()
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while state_file.is_held() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if not state_file.is_held():
            break
    state_file.remove()
    return True


@contextlib.contextmanager
def running(
    *, seconds_per_minute: float | None = SECONDS_PER_MINUTE, most_containers: int | None = None
) -> Iterator[LocalAws]:
    """Start a private local AWS in a temporary folder; it ends with the block or this process.

    `seconds_per_minute`: how long a minute of its alarms and deployments lasts; None for a
    clock that stands still until `LocalAws.advance`. `most_containers`: of a variant, as in `up`.
    """
    _require_moto()
    folder = Path(tempfile.mkdtemp(prefix="servable-aws-"))
    process = spawn_process(folder, 0, seconds_per_minute, most_containers, with_parent=True)
    try:
        yield _wait_until_ready(process, StateFile(folder), 0)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        stop_process(process)
        # The process removes its folder, unless it was killed.
        shutil.rmtree(folder, ignore_errors=True)


def _find_starting_process(folder: Path) -> int | None:
    """Return the process that a killed `up` has started, before it holds the folder's lock."""
    try:
        import psutil
    except ModuleNotFoundError:
        return None  # without psutil, no local AWS can start either
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if words[1:5] == ["-m", "servable_local.aws", "--folder", str(folder)]:
            return int(process.pid)
    return None


def _require_moto() -> None:
    if importlib.util.find_spec("moto") is None:
        problem = "the local AWS needs moto, which is not installed here"
        how = "pip install servable-local, or 'servable-endpoints[local]'"
        raise ModuleNotFoundError(f"{problem}: {how}", name="moto")


def _wait_until_ready(
    process: "subprocess.Popen[bytes]", state_file: StateFile, port: int
) -> LocalAws:
    # Imported while it starts: the first requests to it are signed and sent with these.
    import boto3  # noqa: F401
    from botocore import auth, awsrequest, credentials  # noqa: F401

    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        code = process.poll()
        if code == EXIT_PORT_TAKEN:
            from servable_local.container.ports import describe_holder

            raise LocalAwsStartError(f"port {port} is already in use{describe_holder(port)}")
        if code not in (None, EXIT_HELD):
            free = shutil.disk_usage(state_file.folder).free
            remedy = f"see {state_file.folder / 'aws.log'}"
            if free < _LEAST_FREE_BYTES:
                remedy = f"make room in {state_file.folder}: {free / 1e6:.1f} MB are free there"
            raise LocalAwsStartError(
                f"the local AWS exited with code {code} while starting; {remedy}"
            )
        if running := _find_running(state_file):
            return replace(running, already_up=running.pid != process.pid)
        time.sleep(_POLL_SECONDS)
    raise LocalAwsStartError(
        f"the local AWS did not respond within {_START_SECONDS:.0f} s; "
        f"see {state_file.folder / 'aws.log'}"
    )


def _find_running(state_file: StateFile) -> LocalAws | None:
    aws = state_file.read()
    if aws is None:
        return None
    try:
        health = Access(aws.url, aws.secret_access_key).call_control(HEALTH_PATH, timeout_seconds=5)
    except (OSError, ValueError):
        return None
    return aws if health.get("pid") == aws.pid else None
