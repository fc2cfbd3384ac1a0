"""The real image: what is missing is said, and `docker` is asked for the right thing."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from servable_local.container.launch import LaunchError
from servable_local.container.real_image import launch_image
from tests.conformance import archives
from tests.servable_handler.raw_server import answering

IMAGE = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312"

# Notes how it was called; answers as the case wants.
DOCKER = """#!{python}
import os, pathlib, sys
here = pathlib.Path(os.environ["DOCKER_NOTES"])
with (here / "calls").open("a") as calls:
    calls.write("\\x1f".join(sys.argv[1:]) + "\\n")
failing = os.environ.get("DOCKER_FAILS", "")
if sys.argv[1] == "ps":
    print("" if failing == "ps" else "abc")
if sys.argv[1] == "logs":
    print("no SavedModel bundles found!")
if failing == sys.argv[1]:
    print("it is not there", file=sys.stderr)
    sys.exit(1)
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `docker` of our own; returns the file of its calls."""
    script = tmp_path / "bin" / "docker"
    script.parent.mkdir()
    script.write_text(DOCKER.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_NOTES", str(tmp_path))
    return tmp_path / "calls"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return archives.plain(tmp_path / "model.tar.gz")


def test_a_docker_that_is_missing_or_fails_is_said_with_its_words(
    archive: Path, docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for failing, words in [
        ("version", ["Docker isn't running: it is not there"]),
        ("image", ["--region eu-west-1", f"docker pull {IMAGE}"]),
        ("ps", ["no SavedModel bundles found!"]),
    ]:
        monkeypatch.setenv("DOCKER_FAILS", failing)
        with pytest.raises(LaunchError) as refusal:
            launch_image(IMAGE, archive, {}, ready_timeout_seconds=30)
        assert [word in str(refusal.value) for word in words] == [True] * len(words)
    monkeypatch.setenv("PATH", str(archive.parent))
    with pytest.raises(LaunchError, match="`docker` isn't installed here"):
        launch_image(IMAGE, archive, {})


def test_a_failed_start_leaves_no_container_and_no_folder(
    archive: Path, docker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_FAILS", "run")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(LaunchError, match="docker run failed"):
        launch_image(IMAGE, archive, {})
    assert (list(tmp_path.glob("servable-image-*")), docker.read_text().count("rm\x1f")) == ([], 1)


def test_the_container_gets_archive_variables_and_a_port_of_this_machine_only(
    archive: Path, docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GET /ping is 200 at the port already: the container that would take it is not there.
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as server:
        kept = SimpleNamespace(getsockname=lambda: ("127.0.0.1", server.port), close=lambda: None)
        monkeypatch.setattr("servable_local.container.real_image.reserve_port", lambda port: kept)
        with launch_image(IMAGE, archive, {"SAGEMAKER_TFS_INSTANCE_COUNT": "2"}, port=server.port):
            (run,) = [line for line in docker.read_text().splitlines() if line.startswith("run")]
    words = run.split("\x1f")
    assert words[-2:] == [IMAGE, "serve"]
    assert {f"127.0.0.1:{server.port}:8080", "SAGEMAKER_TFS_INSTANCE_COUNT=2"} <= set(words)
    assert any(word.endswith(":/opt/ml/model:ro") for word in words)
