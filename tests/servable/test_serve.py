"""`servable serve ENV`: the endpoint of an environment, on this computer."""

import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from click.testing import CliRunner

from servable.main import servable
from servable.replay.answers import read_pairs
from servable.replay.run import RUNS
from tests.checkouts import ROOT
from tests.conformance.asking import eventually

pytestmark = pytest.mark.long

GOLDEN = (ROOT / "examples" / "ranker" / "golden" / "request-rows.json").read_bytes()
JSON = {"Content-Type": "application/json"}


@contextmanager
def serving(*options: str) -> Iterator[tuple["subprocess.Popen[str]", str, int]]:
    """(the command, the URL, the supervisor's process) of `servable serve local`."""
    command = [sys.executable, "-m", "servable", "serve", "local", "--json", "--port", "0"]
    process = subprocess.Popen(
        [*command, *options], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield process, said["url"], said["pid"]
    finally:
        process.kill()
        process.communicate()


def _family(pid: int) -> list[psutil.Process]:
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def _alive(family: list[psutil.Process]) -> list[int]:
    """Zombies that nobody reaps here have ended."""
    found = []
    for one in family:
        try:
            if one.status() != psutil.STATUS_ZOMBIE:
                found.append(one.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def _ask(url: str) -> requests.Response:
    return requests.post(f"{url}/invocations", GOLDEN, headers=JSON, timeout=30)


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _listening(family: list[psutil.Process]) -> list[tuple[str, int]]:
    return [
        # gRPC's sockets are of IPv6, and show an IPv4 address as a mapped one.
        (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for one in family
        for connection in one.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]


def test_it_answers_on_this_machine_only_and_its_recording_is_replayed_alike(
    tmp_path: Path,
) -> None:
    recorded = tmp_path / "requests.jsonl"
    with serving("--slow-ms", "150", "--record", str(recorded)) as (_, url, pid):
        assert len(_ask(url).json()["predictions"]) == 3
        assert _ask(url).elapsed.total_seconds() >= 0.15
        # The front, and REST and gRPC of a model server.
        addresses = [address for address, _ in _listening(_family(pid))]
        assert (len(addresses) >= 3, {*addresses}) == (True, {"127.0.0.1"})

        port = url.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "servable"]
        second = subprocess.run(
            [*command, "serve", "local", "--port", port],
            cwd=ROOT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        said = re.sub(r"process \d+", "process 1", second.stderr)
        assert said == (
            f"servable serve: port {port} of 127.0.0.1: Address already in use; process 1 uses it (a local "
            "container); choose a different port, or stop that process\n"
        )
        assert second.returncode == 1

        (tmp_path / "environments").mkdir()
        replay = ["--project", str(tmp_path), "replay", url, "--captured", str(recorded)]
        subprocess.run([*command, *replay], cwd=ROOT, check=True)
        (run,) = (tmp_path / RUNS).glob("*/")
        pairs = [(pair.expected_response, pair.answered) for pair in read_pairs(run)]
        assert pairs
        assert all(was and (was.body, was.status) == (now.body, now.status) for was, now in pairs)
        assert recorded.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, id="ctrl-c"), pytest.param(signal.SIGTERM, id="sigterm")]
)
def test_an_interruption_ends_everything_and_its_code_is_a_shells(number: signal.Signals) -> None:
    with serving() as (process, _, pid):
        family = _family(pid)
        process.send_signal(number)
        assert (process.wait(20), _alive(family)) == (128 + number, [])


@pytest.mark.parametrize("killed", ["supervisor", "command"])
def test_killing_it_ends_every_process_and_frees_every_port(killed: str) -> None:
    def is_gone_in_time() -> bool:
        with serving() as (process, _, pid):
            family = _family(pid)
            ports = [port for _, port in _listening(family)]
            os.kill(pid if killed == "supervisor" else process.pid, signal.SIGKILL)
            return eventually(lambda: not _alive(family) and all(map(_is_free, ports)), 5.0)

    # A machine with other work can take 5 s for what takes 0.5 s; three times in a row it does not.
    assert any(is_gone_in_time() for _ in range(3))


def test_an_unknown_environment_or_variant_is_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = CliRunner().invoke(servable, ["serve", "locale"])
    assert (ran.exit_code, "local" in ran.stderr) == (2, True)
    words = ["serve", "local", "--variant", "primary2"]
    ran = CliRunner().invoke(servable, words, standalone_mode=False)
    assert (ran.return_value, "allowed: primary" in ran.stderr) == (1, True)


# --- `--reload`: edits reach a running container, and no request fails meanwhile

CODE, FILE = Path("examples/ranker/code/inference.py"), Path("environments/local.toml")
HANDLERS = """
import os
import time

def input_handler(data, context):
    time.sleep(0.2)  # so that a request is under way whenever processes change
    return data.read()

def output_handler(response, context):
    settings = [os.environ["SAGEMAKER_TFS_INSTANCE_COUNT"], os.listdir("/opt/ml/model")]
    return json.dumps(["{word}", response.status_code, settings]), "application/json"
"""
SECONDS = 60.0


@contextmanager
def sending(url: str, client: Any) -> Iterator[list[str]]:
    """Send one request after another until the block ends; yield the failures, "" for each 200."""
    failures: list[str] = []
    ended = threading.Event()

    def send() -> None:
        while not ended.is_set():
            try:
                response = client.post(f"{url}/invocations", GOLDEN, headers=JSON, timeout=30)
                good = response.status_code == response.json()[1] == 200
                failures.append("" if good else response.text)
            except (requests.RequestException, ValueError) as error:
                failures.append(repr(error))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield failures
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("environments", "examples/ranker"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    write_code(tmp_path, "first")
    return tmp_path


@pytest.fixture
def said(project: Path) -> Iterator["queue.Queue[str]"]:
    """Lines that `servable serve local --reload` prints; the first one is JSON."""
    command = [sys.executable, "-m", "servable", "--project", str(project), "serve", "local"]
    process = subprocess.Popen(
        [*command, "--reload", "--port", "0", "--json"], cwd=project, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)

    reader = threading.Thread(target=read)
    reader.start()
    yield lines
    process.kill()
    process.wait()
    reader.join()


def write_code(project: Path, word: str) -> None:
    (project / CODE).write_text("import json\n" + HANDLERS.replace("{word}", word))


def wait_for(said: "queue.Queue[str]", text: str) -> str:
    """Return the next line that contains `text`."""
    deadline = time.monotonic() + SECONDS
    while text not in (line := said.get(timeout=deadline - time.monotonic())):
        print(line, end="")  # the log, for a failing test
    return line


def test_edits_are_applied_while_no_request_fails(project: Path, said: "queue.Queue[str]") -> None:
    url = json.loads(wait_for(said, '{"url"'))["url"]
    with sending(url, requests.Session()) as kept, sending(url, requests) as new:

        def answers() -> list[object]:
            word, status, (servers, found) = _ask(url).json()
            return [word, status, servers, sorted(found)]

        assert answers()[0] == "first"
        model_folders = answers()[3]

        write_code(project, "second")
        wait_for(said, "inference.py: reloaded the code")
        assert answers() == ["second", 200, "1", model_folders]

        (project / CODE).write_text("def handler(:\n")
        assert "not applied" in wait_for(said, "inference.py: ")
        assert answers()[0] == "second"

        write_code(project, "third")
        wait_for(said, "inference.py: reloaded the code")

        text = (project / FILE).read_text()
        (project / FILE).write_text(text + "\n[variants.primary.container]\ntfs_processes = 2\n")
        wait_for(said, "local.toml: reloaded the model")
        assert answers() == ["third", 200, "2", model_folders]

        (project / FILE).write_text(text.replace("min_instances = 1", "min_instances = -1"))
        assert "not applied" in wait_for(said, "local.toml: ")
        assert answers()[:3] == ["third", 200, "2"]
    assert {*kept, *new} == {""}
    assert min(len(kept), len(new)) > 20
