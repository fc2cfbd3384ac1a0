"""A folder that `mlflow.tensorflow.save_model` or `log_model` wrote: its SavedModel and input example.

Layout as MLflow 3.17.2 writes it, looked at on 2026-11-28: MLmodel, requirements.txt, input_example.json,
serving_input_example.json, and tf2model/ (a tf.Module) or data/model.keras (a Keras model), which is no
SavedModel; data/model is one where `keras_model_kwargs` asked for the format tf.
"""

import json
from pathlib import Path

from model_packaging.refusal import PackagingError
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
