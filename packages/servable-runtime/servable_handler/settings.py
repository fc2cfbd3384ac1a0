"""The handler's settings, from environment variables that infra/policy/container.py writes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

TRANSPORT = "SERVABLE_TRANSPORT"
GRPC_FROM_BYTES = "SERVABLE_GRPC_FROM_BYTES"
TIMING_HEADER = "SERVABLE_TIMING_HEADER"
REQUEST_TIMEOUT = "SERVABLE_REQUEST_TIMEOUT_SECONDS"
TRANSPORTS = ("auto", "rest", "grpc")
# Variable, the pattern of its value, and the pattern in words.
_ALLOWED = (
    (TRANSPORT, "|".join(TRANSPORTS), ", ".join(TRANSPORTS)),
    (GRPC_FROM_BYTES, r"\d+", "a number of bytes"),
    (TIMING_HEADER, "[01]", "0 or 1"),
    (REQUEST_TIMEOUT, r"(?!0+$)\d+", "an integer number of seconds of at least 1"),
)


@dataclass(frozen=True)
class Settings:
    """The handler's settings. `transport` auto relays JSON over REST and sends tensors over gRPC."""

    transport: str = "auto"
    grpc_from_bytes: int | None = None
    """With auto, JSON bodies of at least this size are parsed here and go over gRPC; None: never."""
    timing_header: bool = False
    timeout_seconds: int | None = None
    """Timeout of a request in seconds, if it is to be less than the container's."""


def read_settings(variables: Mapping[str, str]) -> Settings:
    """Read the settings. Raises `ValueError`; the container then does not start."""
    for name, pattern, allowed in _ALLOWED:
        value = variables.get(name)
        if value is not None and not re.fullmatch(pattern, value):
            raise ValueError(f"{name}={value} is invalid; allowed: {allowed}")
    threshold, timeout = variables.get(GRPC_FROM_BYTES), variables.get(REQUEST_TIMEOUT)
    return Settings(
        variables.get(TRANSPORT, "auto"),
        None if threshold is None else int(threshold),
        variables.get(TIMING_HEADER) == "1",
        None if timeout is None else int(timeout),
    )
