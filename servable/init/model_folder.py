"""Read the folder that `servable init` is given: SavedModel, code, name, and a suitable request.

It supports MLflow's layout as `mlflow.tensorflow.save_model` or `log_model` of MLflow 3.17.2
writes it, checked on 2026-11-28: MLmodel, requirements.txt, input_example.json,
serving_input_example.json, and tf2model/ (a tf.Module) or data/model.keras (a Keras model), which
isn't a SavedModel; data/model is one if `keras_model_kwargs` requested the format tf.
"""

import itertools
import json
import math
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from infra.preflight.model.sources import CODE_FILES
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import (
    DEFAULT_SIGNATURE,
    SignatureInfo,
    TensorInfo,
    list_versions,
)
from servable_tensors import MOST_DIMENSIONS

REQUIREMENTS = (
    "the endpoint's image doesn't install requirements.txt and conda.yaml of the MLflow folder, "
    "which are for MLflow's own server"
)


def find_saved_model(folder: Path) -> Path | None:
    """Return the SavedModel of an MLflow folder, or None if it isn't an MLflow folder.

    Raises `PackagingError` if the folder contains no SavedModel, or several.
    """
    if not (folder / "MLmodel").is_file():
        return None
    found = sorted(file.parent for file in folder.rglob("saved_model.pb"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.relative_to(folder).as_posix() for each in found)
        problem = f"contains several SavedModels: {names}"
        raise PackagingError(folder, problem, "pass the folder of one of them")
    keras = min(folder.rglob("*.keras"), default=None)
    remedy = "log a tf.Module, or an exported Keras model"
    if keras is not None:
        remedy = f"{_format_export(keras.as_posix())}, and pass the exported folder"
    raise PackagingError(folder, "this MLflow folder contains no SavedModel", remedy)


def _format_export(file: str) -> str:
    return f"export it: `keras.saving.load_model({file!r}).export('exported')`"


def read_input_example(folder: Path, signature: str) -> str | None:
    """Return MLflow's example request as a JSON body of TensorFlow Serving, or None.

    None: there is no example, or TensorFlow Serving doesn't accept its format. `signature`: the
    name of the signature that the example is for. inputs and instances mean the same to both:
    https://www.tensorflow.org/tfx/serving/api_rest and
    https://mlflow.org/docs/latest/ml/deployment/deploy-model-locally/ (2026-11-28)
    """
    try:
        body = json.loads((folder / "serving_input_example.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(body, dict) or body.keys() not in ({"inputs"}, {"instances"}):
        return None  # a table of pandas, or parameters, which TensorFlow Serving doesn't accept
    named = {} if signature == DEFAULT_SIGNATURE else {"signature_name": signature}
    return json.dumps({**named, **body}, separators=(",", ":")) + "\n"


def find_version(saved_model: Path) -> tuple[Path, int | None]:
    """Return (folder of the version, version number to write if it is a single SavedModel).

    Raises `PackagingError` if `saved_model` is a file.
    """
    if saved_model.is_file():
        remedy = (
            "pass the folder that contains it"
            if saved_model.name == "saved_model.pb"
            else _format_export(saved_model.name)
        )
        raise PackagingError(saved_model, "this is a file, but a SavedModel is a folder", remedy)
    if (saved_model / "saved_model.pb").is_file():
        return saved_model, 1
    return list_versions(saved_model)[-1], None


def find_code(saved_model: Path) -> Path | None:
    """Return the folder code/ next to the versions, as AWS's archives have it, or None."""
    version = (saved_model / "saved_model.pb").is_file() and saved_model.resolve().name.isdigit()
    code = (saved_model.resolve().parent if version else saved_model) / "code"
    return code if any((code / file).is_file() for file in CODE_FILES) else None


def copy_model(saved_model: Path, root: Path, removed_on_failure: ExitStack) -> Path:
    """Copy a model and the code next to its version into models/ of the project; return its path.

    Raises `PackagingError` if the folder exists already, or if the model is a file.
    """
    target = root / "models" / derive_model_name(saved_model)
    if target.exists():
        raise PackagingError(target, "exists already", "delete it, or omit --copy")
    if not target.parent.exists():
        target.parent.mkdir()
        removed_on_failure.callback(target.parent.rmdir)
    removed_on_failure.callback(shutil.rmtree, target, ignore_errors=True)
    mlflow = find_saved_model(saved_model)
    folder, version = find_version(mlflow or saved_model)
    if version is None or mlflow:  # a folder of versions, or of MLflow
        shutil.copytree(saved_model, target)
        return target
    name = folder.resolve().name
    copied = target / (name if name.isdigit() else "1")
    shutil.copytree(folder, copied)
    code = find_code(saved_model)
    if code is not None and not (copied / "code").is_dir():
        shutil.copytree(code, target / "code")
    return copied


def derive_model_name(saved_model: Path) -> str:
    """Return a name for an environment or model, derived from the last folder of a path.

    A folder that is a version number is skipped.
    """
    resolved = saved_model.resolve()
    name = resolved.parent.name if resolved.name.isdigit() else resolved.name
    cleaned = re.sub(r"[^a-zA-Z0-9-]+", "-", name).strip("-")[:40].strip("-")
    return cleaned if cleaned[:1].isalpha() else f"model-{cleaned}".rstrip("-")


# InvokeEndpoint takes 6 MiB; a golden request is far smaller, or it is not written.
LARGEST_REQUEST_BYTES = 5_000_000
# Sizes used where the signature leaves them open.
ROWS, OTHER_SIZE = 1, 8
# A PNG of one gray 8 x 8 image, for inputs whose names end in _bytes. Such inputs usually take images.
# Source: https://www.tensorflow.org/tfx/serving/api_rest#encoding_binary_values (2026-11-29)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAD0lEQVR4nGNowAEYhpYEAILzYAGc7g8kAAAAAElFTkSuQmCC"


def build_golden_request(name: str, signature: SignatureInfo, notes: list[str]) -> str | None:
    """Return a JSON request of one row with invented values, or None.

    None: JSON can't express such a request, or it would be too large; a note explains it.
    """
    body: dict[str, Any] = {} if name == DEFAULT_SIGNATURE else {"signature_name": name}
    tensors = signature.inputs.items()
    note = "{}, so no golden request was written".format
    if not signature.method.endswith("/predict"):
        method = signature.method.rpartition("/")[2]
        notes.append(note(f"signature {name} serves {method} with tf.Example"))
        return None
    if any(tensor.dtype in ("resource", "variant") for _, tensor in tensors):
        notes.append(note(f"signature {name} has an input type that JSON can't represent"))
        return None
    sizes = {key: _choose_sizes(spec) for key, spec in tensors}
    text = ""
    # Before anything is built: a shape of a few bytes may stand for 2^63 values.
    if all(len(each) <= MOST_DIMENSIONS for each in sizes.values()) and (
        sum(_estimate_least_bytes(sizes[key], spec.dtype) for key, spec in tensors)
        <= LARGEST_REQUEST_BYTES
    ):
        body["inputs"] = {key: _build_tensor(spec, sizes[key], key, notes) for key, spec in tensors}
        text = json.dumps(body, separators=(",", ":")) + "\n"
    if not 0 < len(text) <= LARGEST_REQUEST_BYTES:
        most = f"more than {LARGEST_REQUEST_BYTES:,} bytes as JSON"
        problem = note(f"one row takes {most}, or more than {MOST_DIMENSIONS} dimensions")
        notes.append(f"{problem}; send .npy instead")
        return None
    return text


def _choose_sizes(spec: TensorInfo) -> list[int]:
    shape = (None,) if spec.shape is None else spec.shape
    return [
        (ROWS if at == 0 else OTHER_SIZE) if size is None else size for at, size in enumerate(shape)
    ]


def _estimate_least_bytes(sizes: list[int], dtype: str) -> int:
    """Return the minimum number of bytes that the JSON takes.

    It counts two bytes for each list, and the first value's bytes for every value.
    """
    lists = sum(math.prod(sizes[:depth]) for depth in range(len(sizes)))
    value = json.dumps(next(_generate_values(dtype))) + ","
    return 2 * lists + math.prod(sizes) * len(value)


def _build_tensor(spec: TensorInfo, sizes: list[int], key: str, notes: list[str]) -> Any:
    shape = (None,) if spec.shape is None else spec.shape
    if any(size is None for size in shape[1:]):
        notes.append(
            f"{key}: its shape {list(shape)} has unknown dimensions; the request has {sizes}"
        )
    if spec.dtype in ("string", "bytes") and key.endswith("_bytes"):
        return _nest(itertools.repeat({"b64": PNG}), sizes)
    return _nest(_generate_values(spec.dtype), sizes)


def _generate_values(dtype: str) -> Iterator[Any]:
    """Yield small values that are the same in every run and not all equal."""
    for at in itertools.count():
        if dtype in ("string", "bytes"):
            yield f"text {at}"
        elif dtype == "bool":
            yield at % 2 == 0
        elif "int" in dtype:
            yield at % 2
        else:
            yield at * 37 % 100 / 100


def _nest(values: Iterator[Any], sizes: list[int]) -> Any:
    return [_nest(values, sizes[1:]) for _ in range(sizes[0])] if sizes else next(values)
