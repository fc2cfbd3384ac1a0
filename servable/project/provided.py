"""The parts of the package servable-local that commands use: containers and the local AWS.

Only this module imports that package. The base installation doesn't have it: a name is imported
when it is read, and the ModuleNotFoundError becomes the sentence that names the extra to install.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servable_local.aws import LocalAws as LocalAws
    from servable_local.aws.command import commands as commands
    from servable_local.aws.sagemaker.container import Container as Container
    from servable_local.aws.sagemaker.transform_requests import READY_SECONDS as READY_SECONDS
    from servable_local.aws.sagemaker.transform_requests import AnswerError as AnswerError
    from servable_local.aws.sagemaker.transform_requests import RequestSender as RequestSender
    from servable_local.aws.sagemaker.transform_requests import read_limits as read_limits
    from servable_local.aws.sagemaker.transform_requests import transform as transform
    from servable_local.container.compiled_packages import fetch_packages as fetch_packages
    from servable_local.container.launch import STDERR as STDERR
    from servable_local.container.launch import EndpointProcess as EndpointProcess
    from servable_local.container.launch import LaunchError as LaunchError
    from servable_local.container.launch import launch as launch
    from servable_local.container.real_image import ImageContainer as ImageContainer
    from servable_local.container.real_image import launch_image as launch_image
    from servable_local.container.recording import Recording as Recording
    from servable_local.container.settings import build_batch_variables as build_batch_variables

_MODULES = {
    "aws": "LocalAws",
    "aws.command": "commands",
    "aws.sagemaker.container": "Container",
    "aws.sagemaker.transform_requests": "READY_SECONDS AnswerError RequestSender read_limits transform",
    "container.compiled_packages": "fetch_packages",
    "container.launch": "STDERR EndpointProcess LaunchError launch",
    "container.real_image": "ImageContainer launch_image",
    "container.recording": "Recording",
    "container.settings": "build_batch_variables",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def find_local_aws(folder: Path) -> "LocalAws | None":
    """Return the local AWS with its state in a folder; None if none runs or is installed."""
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
