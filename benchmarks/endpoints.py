"""Starts endpoints on this computer, creates their requests, and measures their cost.

    python -m benchmarks.endpoints FOLDER

writes a model that sums each row, in a separate process: the benchmark itself has no threads of
TensorFlow.
"""

import functools
import http.client
import io
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil

from model_packaging.inputs import build_handler_tree
from servable_local.container.launch import EndpointProcess
from servable_tensors import wire
from servable_tensors.tensors import Array, to_proto

COLUMNS, SEED = 256, 0
# About 2 KB, 200 KB, and 4 MB as JSON.
ROWS = {1: "1 row", 111: "111 rows", 2_230: "2,230 rows"}
JSON, NPY, PROTOBUF = "application/json", "application/x-npy", "application/x-protobuf"


class EndpointCaller:
    """A connection to an endpoint that stays open."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def invoke(
        self, body: bytes, content_type: str, path: str = "/invocations", method: str = "POST"
    ) -> bytes:
        """Send a request and return the response's body. Raises OSError if it isn't 200."""
        headers = {"Content-Type": content_type, "Accept": content_type}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise OSError(f"{content_type}, {path}: {response.status} {answer[:300]!r}")
        return answer


def generate_rows(count: int) -> Array:
    """Return random rows of float32, rounded to four decimals."""
    drawn = np.random.default_rng(SEED).random((count, COLUMNS)).round(4)
    return drawn.astype(np.float32)


@functools.cache
def encode_rows(content_type: str, count: int) -> bytes:
    """Return random rows encoded in a content type."""
    if content_type == JSON:
        rows = generate_rows(count).astype(float).round(4).tolist()
        return json.dumps({"instances": rows}).encode()
    if content_type == NPY:
        file = io.BytesIO()
        np.save(file, generate_rows(count))
        return file.getvalue()
    request = wire.PredictRequest()
    request.inputs["x"].CopyFrom(to_proto(generate_rows(count)))
    return bytes(request.SerializeToString())


def export_model(folder: Path) -> Path:
    """Save a model that has almost nothing to compute."""
    command = [sys.executable, "-m", "benchmarks.endpoints", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def pack(
    archive: Path, models: Mapping[str, Path], code: bytes = b"", *, handler: bool = False
) -> Path:
    """Write an archive with SavedModels by name, an inference.py, and Servable's handler."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name, folder in models.items():
            tar.add(folder, f"{name}/1")
        for entry in build_handler_tree(None).entries if handler else ():
            tar.add(entry.path, entry.name, recursive=False)
        if code:
            member = tarfile.TarInfo("code/inference.py")
            member.size = len(code)
            tar.addfile(member, io.BytesIO(code))
    return archive


def read_cpu_ms(pids: Iterable[int | None]) -> float:
    """Return the CPU time so far, user and system, of all threads of these processes.

    Source of a process's clock: clock_getcpuclockid(3); CPUCLOCK_SCHED in the kernel's
    include/linux/posix-timers_types.h.
    """
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids if pid is not None) * 1000


def list_processes(process: EndpointProcess) -> list[int]:
    """List the processes of an endpoint: the web server and its workers, and the model servers."""
    parts = process.parts
    pids = (parts.nginx, parts.gunicorn, *parts.workers, *parts.model_servers)
    return [pid for pid in pids if pid is not None]


def read_memory_mb(pids: Iterable[int]) -> float:
    """Return the proportional set size of processes: shared pages are divided among them."""
    return float(sum(psutil.Process(pid).memory_full_info().pss for pid in pids)) / 1e6


def _save_model(folder: Path) -> None:
    import tensorflow as tf

    class Sum(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(self, x: Any) -> Any:
            return {"y": tf.reduce_sum(x, axis=1)}

    model = Sum()
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})


if __name__ == "__main__":
    _save_model(Path(sys.argv[1]))
