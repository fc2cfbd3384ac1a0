"""A running endpoint, as the process that started it sees it."""

import functools
import subprocess
import threading
from pathlib import Path
from typing import Self

from servable_local.container.parts import Parts
from servable_local.container.troublemaker import Troublemaker
from servable_local.container.unpack_folder import UnpackFolder

_END_SECONDS = 5.0


class EndpointProcess:
    """A running endpoint. `url` answers GET /ping and POST /invocations."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: UnpackFolder) -> None:
        self.url = ""
        self.seconds_after_import = 0.0
        """From TensorFlow's import, whose time depends on the disk, to the first answer."""
        self.process = process
        """The supervisor's."""
        self._folder = folder
        self._closing = threading.Lock()

    @property
    def pid(self) -> int:
        """The endpoint's supervisor, whose end is the end of all its processes."""
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def folder(self) -> Path:
        """Its files; any process of the same user can make trouble by them."""
        return self._folder.path

    @property
    def parts(self) -> Parts:
        """The processes as they are now."""
        return Parts.read(self.folder)

    @functools.cached_property
    def trouble(self) -> Troublemaker:
        """Makes it slow, failing, frozen or dead, on request."""
        return Troublemaker(self.folder)

    def close(self) -> None:
        """Ends the process and removes its unpacked files. Again is nothing."""
        with self._closing:
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe:
                    pipe.close()
            try:
                self.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self._folder.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
