"""The environment variables that the endpoint's process starts with."""

import os
from collections.abc import Mapping
from pathlib import Path

from servable_local.container.settings import OPENMP_THREADS, is_container_variable

PROJECT = Path(__file__).resolve().parents[2]


def process_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, with the container's `variables` instead of its own settings."""
    # The container's settings come from `variables` alone, not from the shell we run in.
    found = {name: text for name, text in os.environ.items() if not is_container_variable(name)}
    found[OPENMP_THREADS] = "1"  # as the image does when it is left out
    # TensorFlow imports Keras unless told that another one will be used; no
    # SavedModel needs it, and without it the start takes 1.7 s instead of 3.4 s.
    found["TF_USE_LEGACY_KERAS"] = "1"
    found.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    found |= variables
    # A handler posts to the model server on this computer: never through a proxy.
    for name in ("NO_PROXY", "no_proxy"):
        found[name] = ",".join(filter(None, [found.get(name), "127.0.0.1", "localhost"]))
    # The container overwrites a PYTHONPATH of the variables too. This one is for our own processes:
    # the one that runs user code exchanges it for the image's (image_imports.py).
    paths = [str(PROJECT), os.environ.get("PYTHONPATH")]
    found["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return found
