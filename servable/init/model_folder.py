"""The folder that `servable init` is given: its SavedModel, code, and name, as TensorFlow or MLflow wrote it.

MLflow's layout as `mlflow.tensorflow.save_model` or `log_model` of MLflow 3.17.2 writes it, checked on
2026-11-28: MLmodel, requirements.txt, input_example.json, serving_input_example.json, and tf2model/ (a
tf.Module) or data/model.keras (a Keras model), which isn't a SavedModel; data/model is one where
`keras_model_kwargs` asked for the format tf.
"""

import json
import re
import shutil
from contextlib import ExitStack
from pathlib import Path

from infra.preflight.model.artefact import CODE_FILES
from model_packaging.refusal import PackagingError
from model_packaging.saved_model import versions
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE

REQUIREMENTS = (
    "requirements.txt and conda.yaml of the MLflow folder are for MLflow's own server: the image of the "
    "endpoint installs nothing of them"
)


def saved_model_in(folder: Path) -> Path | None:
    """Return the SavedModel of an MLflow folder; None if the folder is none of MLflow's.

    Raises `PackagingError` if it holds no SavedModel, or several.
    """
    if not (folder / "MLmodel").is_file():
        return None
    found = sorted(file.parent for file in folder.rglob("saved_model.pb"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.relative_to(folder).as_posix() for each in found)
        raise PackagingError(
            folder, f"holds several SavedModels: {names}", "give the folder of one"
        )
    keras = sorted(folder.rglob("*.keras"))
    remedy = "log a tf.Module, or a Keras model that was exported"
    if keras:
        inside = keras[0].as_posix()
        remedy = (
            f"export it: `keras.saving.load_model({inside!r}).export('exported')`, and give that"
        )
    raise PackagingError(folder, "is an MLflow folder without a SavedModel", remedy)


def input_example(folder: Path, signature: str) -> str | None:
    """Return MLflow's example of a request as a JSON body of TensorFlow Serving; None if it is none.

    `signature`: name of the signature that it is for. inputs and instances mean the same to both:
    https://www.tensorflow.org/tfx/serving/api_rest and
    https://mlflow.org/docs/latest/ml/deployment/deploy-model-locally/ (2026-11-28)
    """
    try:
        body = json.loads((folder / "serving_input_example.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if (
        not isinstance(body, dict)
        or len(body.keys() & {"inputs", "instances"}) != 1
        or len(body) > 1
    ):
        return None  # a table of pandas, or parameters, which TensorFlow Serving does not take
    named = {} if signature == DEFAULT_SIGNATURE else {"signature_name": signature}
    return json.dumps({**named, **body}, separators=(",", ":")) + "\n"


def find_version(saved_model: Path) -> tuple[Path, int | None]:
    """Return (folder of the version, version number to write if it is a single SavedModel)."""
    if saved_model.is_file():
        remedy = (
            "give the folder that holds it"
            if saved_model.name == "saved_model.pb"
            else f"export it: `keras.saving.load_model({saved_model.name!r}).export('exported')`"
        )
        raise PackagingError(saved_model, "is a file; a SavedModel is a folder", remedy)
    if (saved_model / "saved_model.pb").is_file():
        return saved_model, 1
    return versions(saved_model)[-1], None


def find_code(saved_model: Path) -> Path | None:
    """Return the folder code/ beside the versions, as AWS's archives have it."""
    version = (saved_model / "saved_model.pb").is_file() and saved_model.resolve().name.isdigit()
    code = (saved_model.resolve().parent if version else saved_model) / "code"
    return code if any((code / file).is_file() for file in CODE_FILES) else None


def copy_model(saved_model: Path, root: Path, removed_on_failure: ExitStack) -> Path:
    """Copy a model into models/ of the project, with the code beside its version, and return its path.

    Raises `PackagingError` if the folder exists already, or the model is a file.
    """
    target = root / "models" / model_name(saved_model)
    if target.exists():
        raise PackagingError(target, "exists already", "delete it, or leave out --copy")
    if not target.parent.exists():
        target.parent.mkdir()
        removed_on_failure.callback(target.parent.rmdir)
    removed_on_failure.callback(shutil.rmtree, target, ignore_errors=True)
    held, version = find_version(saved_model_in(saved_model) or saved_model)
    code = find_code(saved_model)
    if version is None or saved_model_in(saved_model):  # a folder of versions, or of MLflow
        shutil.copytree(saved_model, target)
        return target
    copied = target / (held.resolve().name if held.resolve().name.isdigit() else "1")
    shutil.copytree(held, copied)
    if code is not None and not (copied / "code").is_dir():
        shutil.copytree(code, target / "code")
    return copied


def model_name(saved_model: Path) -> str:
    """Return the last folder of a path, above a version, as the name of an environment or a model."""
    resolved = saved_model.resolve()
    name = resolved.parent.name if resolved.name.isdigit() else resolved.name
    cleaned = re.sub(r"[^a-zA-Z0-9-]+", "-", name).strip("-")[:40].strip("-")
    return cleaned if cleaned[:1].isalpha() else f"model-{cleaned}".rstrip("-")
