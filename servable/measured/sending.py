"""A process that sends requests; pickled messages go to it and come from it through pipes."""

import pickle
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from servable.measured.measurement import LoadError

END_SECONDS = 5.0


class SendingProcess:
    def __init__(
        self, command: Sequence[str], what: str, variables: Mapping[str, str] | None
    ) -> None:
        """Start the process.

        `what`: its name in errors. `variables`: its environment; None: that of this process.
        """
        self._what = what
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (close() closes it)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=variables,
            process_group=0,  # Ctrl-C goes to this process, which ends the other
        )
        assert self._process.stdin is not None  # they are pipes
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def _write(self, message: object) -> None:
        """Send a message to the process. Raises LoadError if it has ended."""
        try:
            self._input.write(pickle.dumps(message))
            self._input.flush()
        except (OSError, ValueError):  # ended, or closed meanwhile
            raise self._build_end_error() from None

    def _receive(self) -> Any:
        """Return the process's next message. Raises the message if it is a LoadError."""
        try:
            received = pickle.load(self._output)
        except (EOFError, pickle.UnpicklingError):
            raise self._build_end_error() from None
        if isinstance(received, LoadError):
            raise received
        return received

    def _build_end_error(self) -> LoadError:
        lines = []
        if not self._log.closed:  # a thread may come here after `close`
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").splitlines()[-10:]
        return LoadError("\n".join([f"{self._what} has ended.", *lines]))

    def close(self) -> None:
        """End the process. Idempotent."""
        end_process(self._process)
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """Close the pipes of a process, which ends it, or kill it after some seconds. Idempotent."""
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(OSError):  # the process ended first
                pipe.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
