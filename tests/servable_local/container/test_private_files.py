"""What a local container writes is for its owner alone: requests, logs, unpacked code."""

import os
import stat
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import requests

from servable_local.container.launch import launch
from servable_local.container.real_image import launch_image
from tests.conformance.archives import MODELS
from tests.servable_local.container.conftest import Pack

WRITING = b"""
import pathlib, tempfile

def handler(data, context):
    pathlib.Path("written-by-code").write_bytes(data.read())
    tempfile.NamedTemporaryFile(delete=False).close()
    return "done", "text/plain"
"""


def _open_to_others(*paths: Path) -> list[str]:
    return [str(path) for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]


@pytest.mark.long
def test_folder_sockets_logs_and_what_code_writes_are_the_owners(
    pack: Pack, tmp_path: Path
) -> None:
    archive = pack({"code/inference.py": WRITING}, {"numbers": MODELS / "numbers"})
    log = tmp_path / "container.log"
    before = os.umask(0)
    try:
        with launch(archive, {}, log=log, ready_timeout_seconds=110.0) as process:
            answer = requests.post(f"{process.url}/invocations", b"secret", timeout=30)
            files = [process.folder, *process.folder.rglob("*")]
            found = (answer.text, _open_to_others(log, *files))
            names = {file.name for file in files}
    finally:
        os.umask(before)
    assert found == ("done", [])
    assert {"written-by-code", "inference.py", "control.sock", "processes.json"} <= names


def test_the_container_s_own_log_is_the_owners(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servable_local.container.launch._wait_for_report", lambda *_: {"port": 1})
    before = os.umask(0)
    try:
        with launch(pack({"a": b""}), {}) as process:
            assert _open_to_others(process.folder, process.folder / "log") == []
    finally:
        os.umask(before)


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
