"""Starts the endpoint as a separate process, and ends it.

with launch(Path("model.tar.gz"), {}) as process:
    requests.post(process.url + "/invocations", ...)
"""

import contextlib
import fcntl
import functools
import importlib.util
import io
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from servable_local.container.faults import RELOAD, FaultInjector, Parts
from servable_local.container.image_code import VERSION
from servable_local.container.recording import Recording
from servable_local.container.settings import (
    OPENMP_THREADS,
    PORT,
    SettingsError,
    is_container_variable,
    read_settings,
)
from servable_local.protection import open_private, write_atomically

__all__ = ["EndpointProcess", "LaunchError", "launch"]

PROJECT = Path(__file__).resolve().parents[2]
PREFIX = "servable-container-"
_LOCK = "lock"
_END_SECONDS = 5.0
# TensorFlow's import writes these, whatever TF_CPP_MIN_LOG_LEVEL is (TensorFlow 2.21, 2026-11-22).
_USUAL_NOTES = (b"All log messages before absl::Init", b"oneDNN custom operations are on.")


class UnpackFolder:
    """A temporary folder that doesn't outlive both this process and the endpoint.

    Pass `lock` to the endpoint's process: each of the two removes the folder at its end. If both
    are killed at once, the next launch finds it unlocked.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Locked under another name first: a sweep in this moment must not find it free.
        unlocked = self.path / "lock.new"
        self.lock = open(unlocked, "wb", opener=open_private)  # noqa: SIM115  # `remove` closes it
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove the folder and release its lock. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()


def remove_orphaned_folders() -> None:
    """Remove the folders of endpoints that were killed together with their starters."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_LOCK}"):
        # OSError: in use, already removed, or the folder of a different user.
        with contextlib.suppress(OSError), lock.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


class EndpointProcess(AbstractContextManager["EndpointProcess"]):
    """A running endpoint. `url` serves GET /ping and POST /invocations."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: UnpackFolder) -> None:
        self.url = ""
        self.process = process
        """The supervisor, whose end ends all its processes."""
        self._folder = folder
        self._closing = threading.Lock()
        self._log = threading.Thread(target=self._show_log, daemon=True)
        self._log.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def folder(self) -> Path:
        """Return the endpoint's folder, by which any process of the user can inject faults."""
        return self._folder.path

    @property
    def parts(self) -> Parts:
        """Return the current processes."""
        return Parts.read(self.folder)

    @functools.cached_property
    def faults(self) -> FaultInjector:
        """Return the injector that makes it slow, failing, frozen, or dead."""
        return FaultInjector(self.folder)

    def reload(
        self,
        archive: Path | None,
        variables: Mapping[str, str],
        *,
        model: Path,
        ready_timeout_seconds: float,
        tensorflow: str,
    ) -> None:
        """Serve a new archive, or new code, on the same port; the old processes serve until then.

        `archive`: it is unpacked into `model`, a path that doesn't exist, in the endpoint's
        folder; None: only the code changes, and `model` has it in code/. Raises `LaunchError`:
        the old processes then continue.
        """
        variables = {**variables, PORT: self.url.rpartition(":")[2], VERSION: tensorflow}
        request = {
            "archive": archive and str(archive.resolve()),
            "environment": build_environment(variables) | {"TMPDIR": str(self.folder)},
            "model": str(model),
            "timeout_seconds": ready_timeout_seconds,
        }
        write_atomically(self.folder / RELOAD, json.dumps(request))
        self.process.send_signal(signal.SIGUSR1)
        # The supervisor keeps the time.
        _wait_for_report(self, ready_timeout_seconds + _END_SECONDS, STDERR)

    def close(self) -> None:
        """End the process and remove its unpacked files. Idempotent."""
        with self._closing:
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe:
                    pipe.close()
            try:
                self.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self._log.join(_END_SECONDS)
            self._folder.remove()

    def _show_log(self) -> None:
        """Write the container's output to stderr, unless a file was specified for it."""
        with self.process.stderr or io.BytesIO() as log:
            while line := log.readline(1 << 16):  # a longer one is shown in parts
                if not any(note in line for note in _USUAL_NOTES):
                    sys.stderr.write(line.decode(errors="backslashreplace"))

    def __exit__(self, *failure: object) -> None:
        self.close()


STDERR = Path("/dev/stderr")
"""Value of `log` for the stderr of this process, line by line, so that a command escapes it."""


class LaunchError(Exception):
    """The endpoint didn't start. `str()` is a whole sentence: what failed, what to do."""


def launch(
    archive: Path | None,
    variables: Mapping[str, str],
    *,
    ready_timeout_seconds: float = 60.0,
    log: Path | None = None,
    port: int | None = None,
    memory_limit_mib: int | None = None,
    tensorflow: str | None = None,
    record: Recording | None = None,
    unpacking: Callable[[int, int], None] = lambda read, size: None,
) -> EndpointProcess:
    """Serve `archive` on `port` of 127.0.0.1, or on a free port, and return once it responds.

    `variables` are the container's, as in the model's definition. `archive` may be None in
    multi-model mode, where it would contain the code that all models share. `log` is appended to;
    by default the process's output only appears in the error. With `memory_limit_mib` the largest
    process is killed while all exceed it. `tensorflow`: the version whose image's code is
    emulated; by default the newest known. `record`: a file to which predictions are appended.
    `unpacking`: called with the bytes read of the archive, and its size. Everything ends with this
    process, however that ends. Raises `LaunchError`, or ModuleNotFoundError without its extra run.
    """
    for name in ("tensorflow", "gunicorn"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(
                f"the local container needs {name}, which is not installed here: pip install "
                "'servable-endpoints[local]', or 'servable-local[run]'",
                name=name,
            )
    if archive is not None:
        archive = archive.resolve()
        if not archive.is_file():
            raise LaunchError(f"{archive}: no such file; pack the model first")
    if port is not None:
        variables = {**variables, PORT: str(port)}
    if tensorflow is not None:
        variables = {**variables, VERSION: tensorflow}
    try:
        settings = read_settings(variables, gunicorn=False)  # is there code? not known yet
    except SettingsError as error:
        raise LaunchError(str(error)) from None
    if archive is None and not settings.multi_model:
        raise LaunchError("no archive given; only multi-model mode starts without one")
    remove_orphaned_folders()
    folder = UnpackFolder()
    words = log if log is not None else folder.path / "log"
    recorded = record and json.dumps(record)
    options = {"--archive": archive, "--memory-limit-mib": memory_limit_mib, "--record": recorded}
    try:
        process = EndpointProcess(_start_process(options, variables, folder, words), folder)
    except OSError as error:
        folder.remove()
        raise LaunchError(f"cannot start the endpoint's process: {error}") from None
    try:
        report = _wait_for_report(process, ready_timeout_seconds, words, unpacking)
        process.url = f"http://127.0.0.1:{report['port']}"
    except BaseException:  # Ctrl-C while waiting leaves nothing either
        process.close()
        raise
    return process


def _start_process(
    options: Mapping[str, object], variables: Mapping[str, str], folder: UnpackFolder, words: Path
) -> "subprocess.Popen[bytes]":
    # -P: the working folder is not searched for modules, whatever it holds.
    command = [sys.executable, "-P", "-m", "servable_local.container"]
    command += [word for name, value in options.items() if value for word in (name, str(value))]
    command += ["--folder", str(folder.path), "--parent-pid", str(os.getpid())]
    with ExitStack() as opened:
        stderr: Any = subprocess.PIPE
        if words != STDERR:
            stderr = opened.enter_context(open(words, "ab", opener=open_private))
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder.path,
            # Ctrl-C goes to a whole group; this process ends those of the endpoint.
            process_group=0,
            pass_fds=[folder.lock.fileno()],
            # TensorFlow compiles into temporary files, which a killed process leaves.
            env={**build_environment(variables), "TMPDIR": str(folder.path)},
        )


def build_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment, with the container's settings only from `variables`."""
    environment = {name: os.environ[name] for name in os.environ if not is_container_variable(name)}
    environment[OPENMP_THREADS] = "1"  # as the image does when it is left out
    # TensorFlow then doesn't import Keras, which no SavedModel needs: the start takes 1.7 s, not 3.4 s.
    environment["TF_USE_LEGACY_KERAS"] = "1"
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    environment |= variables
    # A handler posts to the model server on this computer: never through a proxy.
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [environment.get(name), "127.0.0.1", "localhost"]
        environment[name] = ",".join(filter(None, hosts))
    # The container overwrites a PYTHONPATH of the variables too. This one is for our own processes:
    # the one that runs user code exchanges it for the image's (gunicorn/user_code.py).
    paths = [str(PROJECT), os.environ.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return environment


def _wait_for_report(
    process: EndpointProcess,
    timeout_seconds: float,
    words: Path,
    unpacking: Callable[[int, int], None] = lambda read, size: None,
) -> dict[str, Any]:
    out = process.process.stdout
    assert out is not None  # it is a pipe
    deadline = time.monotonic() + timeout_seconds
    data = b""
    # Not select(): it fails on the descriptors above 1023 of a process with many connections.
    with selectors.DefaultSelector() as ready:
        ready.register(out, selectors.EVENT_READ)
        while True:
            if not ready.select(max(0.0, deadline - time.monotonic())):
                raise LaunchError(
                    f"the endpoint wasn't ready after {timeout_seconds:g} s; for a large model, set "
                    f"a longer startup_timeout_seconds.{_read_last_lines(words)}"
                )
            if not (part := os.read(out.fileno(), 65536)):
                status = process.process.wait()
                raise LaunchError(
                    f"the endpoint's process exited with status {status} before it was ready; "
                    f"see its output.{_read_last_lines(words)}"
                )
            *lines, data = (data + part).split(b"\n")
            for line in lines:
                report: dict[str, Any] = json.loads(line)
                if "error" in report:
                    raise LaunchError(report["error"])
                if "port" in report:
                    return report
                unpacking(report["unpacked"], report["of"])


def _read_last_lines(words: Path) -> str:
    """Return the end of the log, on separate lines; nothing if stderr has shown it already."""
    if words == STDERR:
        return ""
    lines = words.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
    return "".join(f"\n{line}" for line in lines)
