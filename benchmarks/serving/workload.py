"""What is asked: rows of 256 float32 in every form, and a model that sums each row."""

import functools
import io
import json
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
ROOT = Path(__file__).resolve().parents[2]
JSON, NPY, PROTOBUF = "application/json", "application/x-npy", "application/x-protobuf"


def rows(count: int) -> Array:
    """Four decimals each: about 2 KB, 200 KB and 4 MB as JSON."""
    random = np.random.default_rng(SEED)
    return random.random((count, COLUMNS)).round(4).astype(np.float32)


@functools.cache
def body(form: str, count: int) -> bytes:
    array = rows(count)
    if form == JSON:
        written = np.random.default_rng(SEED).random((count, COLUMNS)).round(4).tolist()
        return json.dumps({"instances": written}).encode()
    if form == NPY:
        file = io.BytesIO()
        np.save(file, array)
        return file.getvalue()
    request = wire.PredictRequest()
    request.inputs["x"].CopyFrom(to_proto(array))
    return bytes(request.SerializeToString())


def save_model(folder: Path) -> None:
    """Next to nothing to compute, so that the way there shows."""
    import tensorflow as tf

    class Sum(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None, COLUMNS], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(self, x: Any) -> Any:
            return {"y": tf.reduce_sum(x, axis=1)}

    model = Sum()
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})


def pack(archive: Path, model: Path, files: Mapping[str, bytes], *, ours: bool) -> Path:
    """An archive with this code; `ours`: and with the handler's package beside it."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(model, "rows/1")
        if ours:
            for entry in request_path(None).entries:
                tar.add(entry.path, entry.name, recursive=False)
        for name, content in files.items():
            member = tarfile.TarInfo(f"code/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive


if __name__ == "__main__":
    import sys

    save_model(Path(sys.argv[1]))
