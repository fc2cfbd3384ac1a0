"""Optional dependencies: `pip install 'servable-endpoints[EXTRA]'`.

A command whose package is missing exits with code 2 and one sentence that names the extra to
install. pyproject.toml lists the packages of each extra.
"""

from collections.abc import Mapping
from importlib.util import find_spec

import click

from model_packaging.refusal import build_install_command

COMMANDS: Mapping[str, tuple[str, str]] = {
    "batch": ("aws", "boto3"),
    "golden": ("tune", "locust"),
    "history": ("aws", "boto3"),
    "invoke": ("aws", "boto3"),
    "load": ("tune", "locust"),
    "local": ("local", "servable_local"),
    "pin": ("aws", "boto3"),
    "plan": ("synth", "aws_cdk"),
    "replay": ("tune", "locust"),
    "report": ("tune", "matplotlib"),
    "serve": ("local", "psutil"),
    "tune": ("tune", "locust"),
    "verify": ("synth", "aws_cdk"),
}
"""Command that needs an extra -> (the extra, a module that is missing without it).

The extra holds everything that the command imports. Other commands import theirs when needed.
"""
MODULES: Mapping[str, str] = {
    "boto3": "aws",
    "botocore": "aws",
    "gunicorn": "local",
    "httptools": "local",
    "matplotlib": "tune",
    "moto": "local",
    "numpy": "aws",
    "pip": "vendor",
    "psutil": "local",
    "servable_client": "aws",
    "servable_local": "local",
    "tensorflow": "local",
    "uv": "vendor",
}
"""Module that is imported, or started, only when it is needed -> the extra that contains it."""


class MissingExtraError(click.ClickException):
    """The error for a package that isn't installed. `str()` is a sentence that names the extra."""

    exit_code = 2

    def __init__(self, who: str, module: str, extra: str) -> None:
        install = build_install_command(extra)
        super().__init__(f"{who} needs {module}, which isn't installed: {install}")


def find_missing_extra(command: str) -> MissingExtraError | None:
    """Return the error for a command whose extra is missing, or None if nothing is missing."""
    extra, module = COMMANDS.get(command, ("", ""))
    if not extra or find_spec(module) is not None:
        return None
    return MissingExtraError(f"servable {command}", module, extra)


def convert_import_error(error: ModuleNotFoundError, who: str) -> Exception:
    """Return a `MissingExtraError` if an extra contains the module, otherwise `error` itself."""
    module = (error.name or "").partition(".")[0]
    known = MODULES.get(module)
    return MissingExtraError(who, module, known) if known else error


def build_unavailable_command(name: str, summary: str, missing: MissingExtraError) -> click.Command:
    """Return a command whose help names the missing extra, and which exits with code 2."""

    def raise_missing(arguments: tuple[str, ...]) -> None:
        raise missing

    params: list[click.Parameter] = [
        click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    ]
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    text = f"{summary}\n\n{missing}"
    return click.Command(name, settings, raise_missing, params, help=text)


def explain_missing_packages() -> str | None:
    """Return what to install before models can run here, or None if nothing is missing."""
    needed = ("tensorflow", "falcon", "gunicorn", "gevent")
    absent = [name for name in needed if find_spec(name) is None]
    if not absent:
        return None
    return (
        f"--run serves the models on this computer, which needs {', '.join(absent)}; run "
        f"`{build_install_command('local')}`"
    )
