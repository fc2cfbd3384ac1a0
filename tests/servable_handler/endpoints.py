"""Archives with the handler in them, as packaging lays them out, and calls to their endpoints."""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import requests

from model_packaging.inputs import build_handler_tree
from servable_tensors import wire
from servable_tensors.tensors import to_proto

ROOT = Path(__file__).resolve().parents[2]
RANKER = ROOT / "examples" / "ranker"
ECHOES = Path(__file__).parent / "models"  # what echoes.py has written


def packed(
    archive: Path,
    models: Mapping[str, Path],
    *,
    handler: bool = True,
    files: Mapping[str, bytes] = {},
) -> Path:
    """`models`: name -> folder of its versions. `files`: further ones, by their names inside."""
    with tarfile.open(archive, "w:gz") as tar:
        for name, folder in models.items():
            tar.add(folder, name)
        if handler:
            for entry in build_handler_tree(None).entries:
                tar.add(entry.path, entry.name, recursive=False)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive


def post(
    url: str,
    body: bytes,
    content_type: str,
    *,
    accept: str = "application/json",
    attributes: str = "",
) -> requests.Response:
    headers = {"Content-Type": content_type, "Accept": accept}
    if attributes:
        headers["X-Amzn-SageMaker-Custom-Attributes"] = attributes
    return requests.post(f"{url}/invocations", body, headers=headers, timeout=30)


def golden() -> tuple[dict[str, Any], list[float]]:
    """The ranker's golden request, as arrays, and TensorFlow's answer."""
    request = json.loads((RANKER / "golden" / "request-columnar.json").read_bytes())["inputs"]
    answer = json.loads((RANKER / "golden" / "answer-columnar.json").read_bytes())["outputs"]
    arrays = {
        "feat_ids": np.array(request["feat_ids"], np.int64),
        "feat_vals": np.array(request["feat_vals"], np.float32),
    }
    return arrays, answer


def predict_request(**arrays: Any) -> bytes:
    request = wire.PredictRequest()
    for name, array in arrays.items():
        request.inputs[name].CopyFrom(to_proto(array))
    return bytes(request.SerializeToString())
