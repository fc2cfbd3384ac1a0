"""The parts of the package servable-local that commands use: containers and the local AWS.

Only this module imports that package. The base installation doesn't have it: a name is imported
when it is read, and the ModuleNotFoundError becomes the sentence that names the extra to install.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servable_local.aws import LocalAws
    from servable_local.aws.command import commands
    from servable_local.aws.sagemaker.container import Container
    from servable_local.aws.sagemaker.transform_requests import (
        READY_SECONDS,
        AnswerError,
        RequestSender,
        read_limits,
        transform,
    )
    from servable_local.container.compiled_packages import fetch_packages
    from servable_local.container.launch import STDERR, EndpointProcess, LaunchError, launch
    from servable_local.container.real_image import ImageContainer, launch_image
    from servable_local.container.recording import Recording
    from servable_local.container.settings import build_batch_variables

__all__ = [
    "READY_SECONDS",
    "STDERR",
    "AnswerError",
    "Container",
    "EndpointProcess",
    "ImageContainer",
    "LaunchError",
    "LocalAws",
    "Recording",
    "RequestSender",
    "build_batch_variables",
    "commands",
    "fetch_packages",
    "find_local_aws",
    "launch",
    "launch_image",
    "read_limits",
    "transform",
]
_MODULES = {
    "aws": ("LocalAws",),
    "aws.command": ("commands",),
    "aws.sagemaker.container": ("Container",),
    "aws.sagemaker.transform_requests": (
        "READY_SECONDS",
        "AnswerError",
        "RequestSender",
        "read_limits",
        "transform",
    ),
    "container.compiled_packages": ("fetch_packages",),
    "container.launch": ("STDERR", "EndpointProcess", "LaunchError", "launch"),
    "container.real_image": ("ImageContainer", "launch_image"),
    "container.recording": ("Recording",),
    "container.settings": ("build_batch_variables",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def find_local_aws(folder: Path) -> "LocalAws | None":
    """Return the local AWS whose state is in a folder, or None if none runs there.

    It is also None if servable-local isn't installed.
    """
    try:
        from servable_local.aws import status
    except ModuleNotFoundError:
        return None
    return status(folder=folder)


class _NoLaunchError(Exception):
    """The stand-in for `LaunchError` where containers can't be launched; it is never raised."""


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(name)
    try:
        module = importlib.import_module(f"servable_local.{_MODULE_OF[name]}")
    except ModuleNotFoundError:
        if name == "LaunchError":  # commands that can also run without a container catch it
            return _NoLaunchError
        raise
    return getattr(module, name)
