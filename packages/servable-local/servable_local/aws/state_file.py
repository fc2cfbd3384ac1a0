"""State file of a running local AWS, and the lock that proves that it runs.

The lock is the kernel's: it goes with the process that holds it, however that ends, so a
state file left behind by a kill -9 is known for what it is.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from servable_local.aws.clock import SECONDS_PER_MINUTE
from servable_local.private_files import private_folder, write_beside

_RETRY_SECONDS = 1.0
# How the process of a local AWS says why it does not start.
EXIT_HELD = 3
EXIT_PORT_TAKEN = 4
# boto3 and the AWS CLI: left out, URLs for S3 are presigned with Signature Version 2.
_CONFIG = """\
[default]
s3 =
    signature_version = s3v4
"""


@dataclass(frozen=True)
class RunningState:
    pid: int
    port: int
    url: str
    started: str
    secret_access_key: str = field(repr=False)
    # None: its clock is moved by hand.
    seconds_per_minute: float | None = SECONDS_PER_MINUTE
    most_containers: int = 1


def default_folder() -> Path:
    """`.servable` in the working folder. The command `servable` names its project's."""
    return Path.cwd() / ".servable"


class StateFile:
    """`aws.json` in a folder, and `aws.lock` beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "aws.json"
        self._lock_path = folder / "aws.lock"

    def write(self, state: RunningState) -> None:
        """Readable by its owner only: whoever reads it can deploy, and so run code as its owner."""
        write_beside(self.path, json.dumps(asdict(state), indent=2) + "\n")

    def read(self) -> RunningState | None:
        """State of the local AWS that runs; None if none runs, or if the file's writer has ended."""
        if not self.held():
            return None
        try:
            return RunningState(**json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None  # held, and not written yet

    def holder(self) -> int | None:
        """The process that holds the lock, whatever has become of its state file."""
        try:
            return int(self._lock_path.read_bytes()) if self.held() else None
        except (OSError, ValueError):
            return None

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def held(self) -> bool:
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
        """False where another process holds it."""
        private_folder(self.folder)
        # Somebody who only asks holds it for an instant; somebody who runs holds on.
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
    """Anew: nothing that a client left there for an earlier run is believed."""
    shutil.rmtree(folder, ignore_errors=True)
    private_folder(folder)
    # The CDK CLI remembers there which account an access key belongs to.
    private_folder(folder / "cdk")
    (folder / "config").write_text(_CONFIG, encoding="utf-8")
    (folder / "credentials").write_text("", encoding="utf-8")
