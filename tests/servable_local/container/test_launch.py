import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from servable_local.container.launch import EndpointProcess, LaunchError, launch
from tests.conformance.asking import eventually
from tests.servable_local.container.conftest import RANKER, Pack

pytestmark = pytest.mark.long

DEFAULT = "SAGEMAKER_TFS_DEFAULT_MODEL_NAME"
BROKEN = {"code/inference.py": b"import no_such_module\n"}
SLEEPING = {"code/inference.py": b"import time\ntime.sleep(30)\n"}
MODEL = {"1": RANKER / "model/1"}
TIMEOUT = {"SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "1"}
NO_WORKER = {"SAGEMAKER_GUNICORN_WORKERS": "0"}


def _is_running(pid: int) -> bool:
    try:
        # A zombie that nobody reaps here has ended, once its other threads have too:
        # until then they hold its files open.
        is_zombie = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        return not is_zombie or len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("files", "folders", "variables", "sentence"),
    [
        ({"readme.txt": b""}, {}, {}, "it contains readme.txt"),
        (BROKEN, MODEL, NO_WORKER, "SAGEMAKER_GUNICORN_WORKERS=0"),
        ({"a/1/saved_model.pb": b"x"}, {}, {DEFAULT: "b"}, f"{DEFAULT}=b: the archive contains a"),
        ({"a/1/saved_model.pb": b"x"}, {}, {DEFAULT: ""}, DEFAULT),
        ({"1/saved_model.pb": b"no model"}, {}, {}, "TensorFlow can't load the model"),
        (BROKEN, MODEL, {}, "ModuleNotFoundError: No module named"),
        (SLEEPING, MODEL, TIMEOUT, "Gunicorn didn't start within 1 s"),
    ],
)
def test_what_cannot_be_served_is_one_sentence_and_leaves_no_folder(
    files: dict[str, bytes],
    folders: dict[str, Path],
    variables: dict[str, str],
    sentence: str,
    pack: Pack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = pack(files, folders)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # A variable of the shell is not the container's.
    monkeypatch.setenv("SAGEMAKER_TFS_ENABLE_BATCHING", "nonsense")
    with pytest.raises(LaunchError) as refusal:
        launch(archive, variables)
    assert sentence in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_is_missing_or_an_endpoint_that_is_late_is_named(
    tmp_path: Path, pack: Pack
) -> None:
    with pytest.raises(LaunchError, match="nowhere.tar.gz: no such file"):
        launch(tmp_path / "nowhere.tar.gz", {})
    with pytest.raises(LaunchError, match=r"wasn't ready after 0\.2 s"):
        launch(pack(folders=MODEL), {}, ready_timeout_seconds=0.2)


PARENT = """
import pathlib, sys, time
from servable_local.container.launch import launch
process = launch(pathlib.Path(sys.argv[1]), {})
print(process.pid, flush=True)
time.sleep(600)
"""
Orphan = tuple[subprocess.Popen[str], int]


@pytest.fixture
def orphan(pack: Pack, tmp_path: Path) -> Orphan:
    """A process that launched an endpoint, and the endpoint's pid. Its TMPDIR is `tmp_path`."""
    archive = pack(folders=MODEL)
    command = [sys.executable, "-c", PARENT, str(archive)]
    own = os.environ | {"TMPDIR": str(tmp_path)}
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_killing_the_parent_leaves_no_process_and_no_folder(orphan: Orphan, tmp_path: Path) -> None:
    parent, endpoint = orphan
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert eventually(lambda: not _is_running(endpoint) and not list(tmp_path.iterdir()))


def test_a_folder_whose_parent_and_endpoint_were_both_killed_is_removed_by_the_next_launch(
    orphan: Orphan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Pack
) -> None:
    parent, endpoint = orphan
    os.kill(endpoint, signal.SIGKILL)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert eventually(lambda: not _is_running(endpoint))
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(LaunchError):
        launch(pack({"readme.txt": b""}), {})
    assert list(tmp_path.iterdir()) == []


def test_of_two_started_at_once_on_one_port_one_serves_and_the_other_says_that_it_is_taken(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pack(folders=MODEL)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir("/")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def start() -> EndpointProcess | str:
        try:
            return launch(archive, {}, port=port)
        except LaunchError as refusal:
            return str(refusal)

    with ThreadPoolExecutor(2) as starting:
        one, other = (started.result() for started in [starting.submit(start) for _ in range(2)])
    winner, refusal = (other, one) if isinstance(one, str) else (one, other)
    assert f"port {port} of 127.0.0.1: Address already in use; " in str(refusal)
    assert isinstance(winner, EndpointProcess)
    assert requests.get(winner.url + "/ping", timeout=30).status_code == 200
    # close() ends the process, removes its files, and is idempotent.
    winner.close()
    winner.close()
    assert (_is_running(winner.pid), list(tmp_path.iterdir())) == (False, [])


def test_above_the_memory_limit_the_largest_process_is_killed_and_comes_back(
    pack: Pack, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    archive = pack(folders=MODEL)
    with launch(archive, {}, log=log, memory_limit_mib=1) as process:
        assert eventually(lambda: log.read_text().count("restarting it") > 0)
        assert "out of memory: " in log.read_text()
        assert process.is_running
