"""`servable serve --reload`: edits reach a running container, and no request fails meanwhile."""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from servable.serve.command import list_changes, take_snapshot

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = (ROOT / "examples" / "ranker" / "golden" / "request-rows.json").read_bytes()
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


def test_a_snapshot_has_the_files_that_an_archive_takes(tmp_path: Path) -> None:
    code, file = tmp_path / "code", tmp_path / "request.json"
    (code / "lib").mkdir(parents=True)
    (code / "__pycache__").mkdir()
    edited, deleted = code / "inference.py", code / "lib" / "rows.py"
    for path in (edited, deleted, file, code / "__pycache__" / "inference.pyc"):
        path.write_text("1")
    before = take_snapshot([code, file, tmp_path / "missing.toml"])
    assert set(before) == {edited, deleted, file}
    assert list_changes(before, take_snapshot([code, file])) == []

    edited.write_text("22")
    deleted.unlink()
    (code / "new.py").write_text("")
    (code / "__pycache__" / "new.pyc").write_text("")
    after = take_snapshot([code, file])
    assert list_changes(before, after) == [edited, deleted, code / "new.py"]


class ConstantClient:
    """Sends one request after another until the block ends; `failures` has what wasn't a 200."""

    def __init__(self, url: str, *, keep_alive: bool) -> None:
        self._url, self._keep_alive = f"{url}/invocations", keep_alive
        self.latest: list[object] = []
        self.failures: list[str] = []
        self.requests = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        session = requests.Session()
        while not self._ended.is_set():
            try:
                response = (session if self._keep_alive else requests).post(
                    self._url, GOLDEN, headers={"Content-Type": "application/json"}, timeout=30
                )
                self.requests += 1
                self.latest = response.json()
                if response.status_code != 200 or self.latest[1] != 200:
                    self.failures.append(response.text)
            except (requests.RequestException, ValueError) as error:
                self.failures.append(repr(error))

    def __enter__(self) -> "ConstantClient":
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()


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
        [*command, "--reload", "--port", "0", "--json"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
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


@pytest.mark.long
def test_edits_are_applied_while_no_request_fails(project: Path, said: "queue.Queue[str]") -> None:
    url = json.loads(wait_for(said, '{"url"'))["url"]
    with ConstantClient(url, keep_alive=True) as kept, ConstantClient(url, keep_alive=False) as new:

        def answers() -> list[object]:
            ask = requests.post(f"{url}/invocations", GOLDEN, timeout=30)
            word, status, (servers, found) = ask.json()
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
    assert (kept.failures, new.failures) == ([], [])
    assert min(kept.requests, new.requests) > 20
