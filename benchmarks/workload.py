"""The benchmarks' requests, rows of 256 float32 in every form, and a model that sums each row.

    python -m benchmarks.workload FOLDER

writes the model: in a process of its own, so that who measures stays without TensorFlow's threads.
"""

import functools
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from model_packaging.request_path import request_path
from servable_tensors import wire
from servable_tensors.tensors import Array, to_proto

COLUMNS = 256
SEED = 0
ROWS = (1, 111, 2_230)
JSON, NPY, PROTOBUF = "application/json", "application/x-npy", "application/x-protobuf"


def decimals(count: int) -> Array:
    """Four decimals each: about 2 KB, 200 KB and 4 MB as JSON."""
    return np.random.default_rng(SEED).random((count, COLUMNS)).round(4)


def rows(count: int) -> Array:
    return decimals(count).astype(np.float32)


@functools.cache
def body(form: str, count: int) -> bytes:
    if form == JSON:
        return json.dumps({"instances": decimals(count).tolist()}).encode()
    if form == NPY:
        return npy(rows(count))
    request = wire.PredictRequest()
    request.inputs["x"].CopyFrom(to_proto(rows(count)))
    return bytes(request.SerializeToString())


def npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def model(folder: Path) -> Path:
    """A SavedModel with next to nothing to compute, so that the way there shows."""
    command = [sys.executable, "-m", "benchmarks.workload", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def pack(
    archive: Path,
    models: Mapping[str, Path],
    code: Mapping[str, bytes],
    *,
    handler: bool = False,
    compressed: bool = True,
) -> Path:
    """`models`: name -> SavedModel. `handler`: with the packages of ours beside the code.

    Random weights do not become smaller: their archive is stored as it is.
    """
    with tarfile.open(archive, "w:gz", compresslevel=9 if compressed else 0) as tar:
        for name, folder in models.items():
            tar.add(folder, f"{name}/1")
        if handler:
            for entry in request_path(None).entries:
                tar.add(entry.path, entry.name, recursive=False)
        for name, content in code.items():
            member = tarfile.TarInfo(f"code/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive


def _save_model(folder: Path) -> None:
    import tensorflow as tf

    class Sum(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None, COLUMNS], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(self, x: Any) -> Any:
            return {"y": tf.reduce_sum(x, axis=1)}

    model = Sum()
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})


if __name__ == "__main__":
    _save_model(Path(sys.argv[1]))
