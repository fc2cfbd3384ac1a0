"""The container's folder /opt/ml/model, for code that names it: its paths are opened where they are here."""

import builtins
import functools
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
FOLDER = "/opt/ml/model"
# Python's own functions that take a path first; what is built on them (pathlib, glob, NumPy) follows.
_FUNCTIONS = ((builtins, "open"), (io, "open")) + tuple(
    (os, name) for name in ("open", "stat", "lstat", "access", "listdir", "scandir", "readlink")
)


def open_here(folder: Path) -> None:
    """From now on, `folder` stands for /opt/ml/model in this process, unless that exists."""
    if os.path.exists(FOLDER):  # noqa: PTH110  # its own function is replaced below
        return
    for module, name in _FUNCTIONS:
        setattr(module, name, _mapped(getattr(module, name), str(folder)))


def _mapped(function: Callable[..., Any], folder: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if arguments and isinstance(arguments[0], str | os.PathLike):
            named = os.fspath(arguments[0])
            if isinstance(named, str) and f"{named}/".startswith(f"{FOLDER}/"):
                arguments = (folder + named.removeprefix(FOLDER), *arguments[1:])
        return function(*arguments, **options)

    return call
