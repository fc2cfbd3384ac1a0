"""The handler's settings, from environment variables that infra/policy/container.py writes."""

from collections.abc import Mapping
from dataclasses import dataclass

TRANSPORT = "SERVABLE_TRANSPORT"
GRPC_FROM_BYTES = "SERVABLE_GRPC_FROM_BYTES"
TIMING_HEADER = "SERVABLE_TIMING_HEADER"
REQUEST_TIMEOUT = "SERVABLE_REQUEST_TIMEOUT_SECONDS"
TRANSPORTS = ("auto", "rest", "grpc")


@dataclass(frozen=True)
class Settings:
    """The handler's settings. `transport` auto relays JSON over REST and sends tensors over gRPC."""

    transport: str = "auto"
    grpc_from_bytes: int | None = None
    """With auto, JSON bodies of at least this size are parsed here and go over gRPC; None: never."""
    timing_header: bool = False
    timeout_seconds: int | None = None
    """Timeout of a request in seconds, if it is to be less than the container's."""

    def relays_text(self, body_bytes: int) -> bool:
        """Whether a JSON or CSV body of this size is relayed to the REST port unchanged."""
        if self.transport == "auto":
            return self.grpc_from_bytes is None or body_bytes < self.grpc_from_bytes
        return self.transport == "rest"


def read_settings(variables: Mapping[str, str]) -> Settings:
    """Reads the settings. Raises `ValueError` for an invalid value; the container then does not start."""
    transport = variables.get(TRANSPORT, "auto")
    if transport not in TRANSPORTS:
        raise ValueError(f"{TRANSPORT}={transport} is invalid; allowed: {', '.join(TRANSPORTS)}")
    threshold = variables.get(GRPC_FROM_BYTES)
    if threshold is not None and not threshold.isdecimal():
        raise ValueError(f"{GRPC_FROM_BYTES}={threshold} is invalid; allowed: a number of bytes")
    timing = variables.get(TIMING_HEADER, "0")
    if timing not in ("0", "1"):
        raise ValueError(f"{TIMING_HEADER}={timing} is invalid; allowed: 0 or 1")
    timeout = variables.get(REQUEST_TIMEOUT)
    if timeout is not None and not (timeout.isdecimal() and int(timeout)):
        raise ValueError(
            f"{REQUEST_TIMEOUT}={timeout} is invalid; allowed: a number of seconds from 1 up"
        )
    return Settings(
        transport,
        None if threshold is None else int(threshold),
        timing == "1",
        None if timeout is None else int(timeout),
    )
