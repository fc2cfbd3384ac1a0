"""Archives with the handler in them, as packaging lays them out, and the ranker's golden request."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from model_packaging.inputs import build_handler_tree
from tests.conformance.archives import pack

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
    entries = build_handler_tree(None).entries if handler else ()
    code = {entry.name: entry.path.read_bytes() for entry in entries if not entry.is_folder}
    return pack(archive, {**code, **files}, models)


def golden() -> tuple[dict[str, Any], list[float]]:
    """The ranker's golden request, as arrays, and TensorFlow's answer."""
    request = json.loads((RANKER / "golden" / "request-columnar.json").read_bytes())["inputs"]
    answer = json.loads((RANKER / "golden" / "answer-columnar.json").read_bytes())["outputs"]
    types = {"feat_ids": np.int64, "feat_vals": np.float32}
    return {name: np.array(request[name], dtype) for name, dtype in types.items()}, answer
