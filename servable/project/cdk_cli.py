"""Commands of the CDK CLI for messages, as this computer can run them."""

import shlex
import shutil
from collections.abc import Mapping

from servable.project.folder import FOLDER


def cdk() -> str:
    """Return `cdk` if a shell here finds it; otherwise `npx cdk`, which runs the project's own."""
    return "cdk" if shutil.which("cdk") else "npx cdk"


def stage_command(
    verb: str, name: str, *, folder: str = FOLDER, overrides: Mapping[str, str] | None = None
) -> str:
    """Return the command that does `verb`, for example deploy, with every stack of an environment.

    `folder`: of the environment files, if it isn't the usual one. `overrides`: KEY to value.
    """
    options = [f"environments={folder}"] if folder != FOLDER else []
    options += [f"{name}.{key}={value}" for key, value in (overrides or {}).items()]
    return " ".join([f"{cdk()} {verb} '{name}/*'", *(f"-c {shlex.quote(o)}" for o in options)])
