"""What a container's processes are given, listen on, are asked, and write: for the owner alone."""

import asyncio
import contextlib
import io
import json
import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests

from servable_local.container import ports
from servable_local.container.http_messages import HeaderFields, HttpRequest, HttpResponse
from servable_local.container.launch import EndpointProcess, build_environment, launch
from servable_local.container.model_servers import CONTROL_SOCKET, call_supervisor
from servable_local.container.ports import PortError
from servable_local.container.real_image import launch_image
from servable_local.container.recording import CaptureRecorder, Recording
from tests.conformance.archives import MODELS
from tests.servable_local.container.conftest import Pack


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
        said = rf"port {port} of 127\.0\.0\.1: .*; process \d+ uses it"
        with pytest.raises(PortError, match=said):
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


WRITING = b"""
import pathlib, tempfile

def handler(data, context):
    pathlib.Path("written-by-code").write_bytes(data.read())
    tempfile.NamedTemporaryFile(delete=False).close()
    return "done", "text/plain"
"""


def _open_to_others(*paths: Path) -> list[str]:
    return [str(path) for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.long
@pytest.mark.usefixtures("no_umask")
def test_folder_sockets_logs_and_what_code_writes_are_the_owners(
    pack: Pack, tmp_path: Path
) -> None:
    archive = pack({"code/inference.py": WRITING}, {"numbers": MODELS / "numbers"})
    log = tmp_path / "container.log"
    with launch(archive, {}, log=log, ready_timeout_seconds=110.0) as process:
        answer = requests.post(f"{process.url}/invocations", b"secret", timeout=30)
        files = [process.folder, *process.folder.rglob("*")]
        assert (answer.text, _open_to_others(log, *files)) == ("done", [])
    names = {"written-by-code", "inference.py", "control.sock", "processes.json"}
    assert names <= {file.name for file in files}


@pytest.mark.usefixtures("no_umask")
def test_the_container_s_own_log_is_the_owners(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servable_local.container.launch._wait_for_report", lambda *_: {"port": 1})
    with launch(pack({"a": b""}), {}) as process:
        assert _open_to_others(process.folder, process.folder / "log") == []


def test_users_of_this_computer_do_not_reach_what_is_unpacked_for_the_real_image(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servable_local.container.real_image.check_image", lambda image: None)
    done: CompletedProcess[str] = CompletedProcess([], 0)
    monkeypatch.setattr("servable_local.container.real_image._run_docker", lambda *_: done)
    monkeypatch.setattr("servable_local.container.real_image._wait_until_ready", lambda *_: None)
    with launch_image("image", pack({"code/inference.py": WRITING}), {}) as container:
        (model,) = container.folder.iterdir()
        modes = [stat.S_IMODE(one.stat().st_mode) for one in (container.folder, model)]
    assert modes == [0o700, 0o755]


def recorded(file: Path, *requests: HttpRequest, most_bytes: int = 10**6) -> list[dict[str, Any]]:
    answer = HttpResponse(200, b'{"predictions": [0.5]}')

    async def respond(request: HttpRequest) -> HttpResponse:
        return answer

    async def ask() -> None:
        recorder = CaptureRecorder(Recording(file=str(file), most_bytes=most_bytes), respond)
        for request in requests:
            assert await recorder.respond(request) is answer

    asyncio.run(ask())
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def request(path: str = "/invocations", method: str = "POST") -> HttpRequest:
    headers = HeaderFields([(b"content-type", b"application/json"), (b"accept", b"a/b")])
    return HttpRequest(method, path, headers, b'{"instances": [1]}')


def test_a_recorded_line_is_a_prediction_with_what_sagemaker_does_not_capture(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.jsonl"
    assert recorded(file, request("/ping", "GET"), request("/models", "POST")) == []
    (line,) = recorded(file, request())
    sent, answered = (part["data"] for part in line["captureData"].values())
    assert (sent, answered) == ('{"instances": [1]}', '{"predictions": [0.5]}')
    size = file.stat().st_size
    assert len(recorded(file, request(), request(), request(), most_bytes=2 * size + 50)) == 2
    assert "recording stopped: the file reached" in capfd.readouterr().err

    (line,) = recorded(tmp_path / "y.jsonl", request("/models/a/invoke"))
    metadata = [line["eventMetadata"][name] for name in ("accept", "statusCode", "targetModel")]
    assert metadata == ["a/b", 200, "a"]
