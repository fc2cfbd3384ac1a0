"""What is installed only where it is asked for: `pip install 'servable[EXTRA]'`.

A command that comes to need a package that is not there ends with one sentence that says which
extra brings it, and with 2. pyproject.toml has the packages of each.
"""

from collections.abc import Mapping
from importlib.util import find_spec

import click

COMMANDS: Mapping[str, tuple[str, str]] = {
    "conformance": ("aws", "numpy"),
    "history": ("aws", "boto3"),
    "invoke": ("aws", "boto3"),
    "load": ("tune", "locust"),
    "pin": ("aws", "boto3"),
    "plan": ("synth", "aws_cdk"),
    "report": ("tune", "matplotlib"),
    "serve": ("local", "psutil"),
    "tune": ("tune", "optuna"),
    "verify": ("synth", "aws_cdk"),
}
"""A command that does nothing without an extra -> which, and a module by which that is noticed.

All that such a command imports is in its extra. The others look for theirs when they need it.
"""
MODULES: Mapping[str, str] = {
    "boto3": "aws",
    "botocore": "aws",
    "gunicorn": "local",
    "moto": "local",
    "numpy": "aws",
    "pip": "vendor",
    "psutil": "local",
    "servable_client": "aws",
    "tensorflow": "local",
    "uv": "vendor",
}
"""What is imported, or started, only when it is needed -> the extra that brings it."""


class MissingExtraError(click.ClickException):
    """A package is not installed. `str()` is the whole sentence, with the extra that brings it."""

    exit_code = 2

    def __init__(self, who: str, module: str, extra: str) -> None:
        super().__init__(
            f"{who} needs {module}, which is not installed here: pip install 'servable[{extra}]'"
        )


def missing_for(command: str) -> MissingExtraError | None:
    """What to say where a command's extra is not installed; None where it is, or needs none."""
    extra, module = COMMANDS.get(command, ("", ""))
    if not extra or find_spec(module) is not None:
        return None
    return MissingExtraError(f"servable {command}", module, extra)


def explained(error: ModuleNotFoundError, who: str) -> Exception:
    """What to raise in the place of `error`: itself, where no extra brings the module."""
    module = (error.name or "").partition(".")[0]
    known = MODULES.get(module)
    return MissingExtraError(who, module, known) if known else error


def without(name: str, summary: str, missing: MissingExtraError) -> click.Command:
    """Stands for a command without its extra: its help says what is missing, a run exits with 2."""

    def run(arguments: tuple[str, ...]) -> None:
        raise missing

    arguments = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(
        name,
        callback=run,
        params=[arguments],
        help=f"{summary}\n\n{missing}",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
