"""What a container's processes are given, listen on, are asked, and write."""

import contextlib
import io
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from servable_local.container import ports
from servable_local.container.launch import EndpointProcess, build_environment
from servable_local.container.model_servers import CONTROL_SOCKET, call_supervisor
from servable_local.container.ports import PortError


def test_variables_are_passed_on_and_what_the_shell_sets_stays_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert build_environment({})["OMP_NUM_THREADS"] == "1"
    for name in ["SAGEMAKER_TFS_INSTANCE_COUNT", "SERVABLE_TRANSPORT"]:
        monkeypatch.setenv(name, "rest")
        assert name not in build_environment({})
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert "TF_ENABLE_ONEDNN_OPTS" not in build_environment({})
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert build_environment({})["NO_PROXY"] == "example.com,127.0.0.1,localhost"

    for name in ["OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "SERVABLE_TRANSPORT", "MINE"]:
        assert build_environment({name: "0"})[name] == "0"
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert build_environment({})["TF_CPP_MIN_LOG_LEVEL"] == "0"
    assert build_environment({"PYTHONPATH": "/mine"})["PYTHONPATH"] != "/mine"


def test_reserved_ports_can_be_listened_on_by_who_keeps_them_alone() -> None:
    with ports.reserve_port(0) as kept, pytest.raises(PortError):
        ports.reserve_port(kept.getsockname()[1])
    with ports.reserve_port(0) as kept, ports.open_listener(kept.getsockname()[1]) as listener:
        assert listener.getsockname() == kept.getsockname()
    with ports.reserve_port(0) as kept, pytest.raises(ConnectionRefusedError):
        socket.create_connection(kept.getsockname(), timeout=5)

    low, kept = ports.reserve_range(4)
    found = [one.getsockname()[1] for one in kept]
    for one in kept:
        one.close()
    assert found == [low, low + 1, low + 2, low + 3]


def test_a_port_that_is_held_is_refused_with_its_holder() -> None:
    with socket.create_server((ports.HOST, 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(
            PortError, match=rf"port {port} of 127\.0\.0\.1: .*; process \d+ uses it"
        ):
            ports.reserve_port(port)


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


WRITTEN = b"""\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 port.cc:153] oneDNN custom operations are on. You may see
a failure
"""


def test_only_the_usual_notes_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    process = cast(Any, SimpleNamespace(stderr=io.BytesIO(WRITTEN)))
    EndpointProcess(process, cast(Any, None))._log.join()
    assert capsys.readouterr().err == "a failure\n"
