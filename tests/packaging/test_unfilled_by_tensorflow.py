"""TensorFlow as the judge of what a signature reads and nothing fills.

Each model is written by TensorFlow or Keras, loaded in a session as TensorFlow Serving loads it, and
asked once. The verdict that reads its files must be the same.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from model_packaging.saved_model.operations import read_operations

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def models() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tests.packaging import unfilled_models

    return unfilled_models


def judge(models: Any, makers: Any, root: Path) -> dict[str, tuple[bool, bool]]:
    """Name to whether TensorFlow serves the model, and whether nothing is reported."""
    verdicts = {}
    for name, make in makers.items():
        models.write(make, root / name)
        verdicts[name] = models.serves(root / name), read_operations(root / name).unfilled == ()
    return verdicts


def test_models_that_fail_are_accused(models: Any, tmp_path: Path) -> None:
    expected = dict.fromkeys(models.FAULTY, (False, False))
    assert judge(models, models.FAULTY, tmp_path) == expected


def test_models_that_work_are_not_accused(models: Any, tmp_path: Path) -> None:
    expected = dict.fromkeys(models.GOOD, (True, True))
    assert judge(models, models.GOOD, tmp_path) == expected
