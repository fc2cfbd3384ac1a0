"""The SavedModels of this folder, each as one framework exported it, and what that framework answered."""

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
MODELS = FOLDER / "models"
# Its signature reads variables that loading does not fill.
UNFILLED = "keras-saved"
# No request can call it, no CPU runs it, or its requests fail: none becomes an environment.
REFUSED = {
    UNFILLED: "reads the variables sequential/dense/bias, sequential/dense/kernel that nothing restores",
    "module-unsigned": "has no signature that a request could call",
    "jax-cuda": "its module is for CUDA, and an instance type without a GPU is CPU",
}
# Their operations are in TensorFlow Serving, and not in the TensorFlow of this computer.
FORESTS = ("forest-tfdf", "forest-ydf")


class AskedSignature(NamedTuple):
    """A request, and the framework's own answer to it: nested lists, by input and by output."""

    signature: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class Answers(NamedTuple):
    """answers/NAME.json."""

    versions: dict[str, str]
    date: str
    asked: list[AskedSignature]


def answers(name: str) -> Answers:
    said = json.loads((FOLDER / "answers" / f"{name}.json").read_text(encoding="utf-8"))
    said["asked"] = [AskedSignature(**one) for one in said["asked"]]
    return Answers(**said)


NAMES = sorted(path.name for path in MODELS.iterdir())
SERVED = [name for name in NAMES if name not in (*REFUSED, *FORESTS)]
