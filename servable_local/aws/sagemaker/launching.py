"""How a container starts here: the double of servable_local/container, or a test's stand-in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, cast

from servable_local.aws.sagemaker.errors import StartError


class Process(Protocol):
    """A container that serves."""

    url: str

    def close(self) -> None: ...


class Launch(Protocol):
    """Returns when /ping answers; raises an exception whose text is the reason.

    `archive` is None in multi-model mode.
    """

    def __call__(
        self,
        archive: Path | None,
        variables: Mapping[str, str],
        *,
        ready_timeout_seconds: float = 60.0,
        log: Path | None = None,
    ) -> Process: ...


def launch_double(
    archive: Path | None,
    variables: Mapping[str, str],
    *,
    ready_timeout_seconds: float = 60.0,
    log: Path | None = None,
) -> Process:
    """Imported here and not above, so that the server starts without TensorFlow."""
    from servable_local.container.launch import LaunchError, launch

    try:
        return cast(
            Process,
            launch(archive, variables, ready_timeout_seconds=ready_timeout_seconds, log=log),
        )
    except LaunchError as error:
        raise StartError(str(error)) from None
