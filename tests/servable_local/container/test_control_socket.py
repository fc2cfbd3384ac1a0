"""How another process of this computer asks a local container which models it has."""

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from servable_local.container.model_servers import CONTROL_SOCKET, call_supervisor


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder with the control socket of a container that answers one question."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / CONTROL_SOCKET))
        listening.listen()
        listening.settimeout(10)  # nobody asks where a test fails

        def answer() -> None:
            with contextlib.suppress(TimeoutError):
                asked, _ = listening.accept()
                with asked, asked.makefile("rwb") as lines:
                    lines.write(lines.readline())

        thread = threading.Thread(target=answer)
        thread.start()
        yield tmp_path
        thread.join()


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_it_is_asked_with_and_without_proc(
    folder: Path, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    if platform == "darwin":
        monkeypatch.setattr("os.open", lambda *_: pytest.fail("/proc is Linux's"))
    assert call_supervisor(folder, load="ranker") == {"load": "ranker"}
