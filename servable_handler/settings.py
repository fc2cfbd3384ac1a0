"""How the handler is set up: variables that infra/policy/container.py writes."""

from collections.abc import Mapping
from dataclasses import dataclass

TRANSPORT = "SERVABLE_TRANSPORT"
GRPC_FROM_BYTES = "SERVABLE_GRPC_FROM_BYTES"
TIMING_HEADER = "SERVABLE_TIMING_HEADER"
REQUEST_TIMEOUT = "SERVABLE_REQUEST_TIMEOUT_SECONDS"
TRANSPORTS = ("auto", "rest", "grpc")


@dataclass(frozen=True)
class Settings:
    """`transport`: auto relays JSON over REST and sends tensors over gRPC."""

    transport: str = "auto"
    grpc_from_bytes: int | None = None
    """With auto, JSON bodies from this size on are parsed here and go over gRPC; None: never."""
    timing_header: bool = False
    timeout_seconds: int | None = None
    """A request's deadline where it is to be sooner than the container's."""

    def relays_text(self, body_bytes: int) -> bool:
        """Whether a JSON or CSV body of this size goes to the REST port as it is."""
        if self.transport == "auto":
            return self.grpc_from_bytes is None or body_bytes < self.grpc_from_bytes
        return self.transport == "rest"


def read_settings(variables: Mapping[str, str]) -> Settings:
    """Raises `ValueError` for a value that is not allowed; the container then does not start."""
    transport = variables.get(TRANSPORT, "auto")
    if transport not in TRANSPORTS:
        raise ValueError(f"{TRANSPORT}={transport}: allowed are {', '.join(TRANSPORTS)}")
    threshold = variables.get(GRPC_FROM_BYTES)
    if threshold is not None and not threshold.isdecimal():
        raise ValueError(f"{GRPC_FROM_BYTES}={threshold}: send a number of bytes")
    timing = variables.get(TIMING_HEADER, "0")
    if timing not in ("0", "1"):
        raise ValueError(f"{TIMING_HEADER}={timing}: allowed are 0 and 1")
    timeout = variables.get(REQUEST_TIMEOUT)
    if timeout is not None and not (timeout.isdecimal() and int(timeout)):
        raise ValueError(f"{REQUEST_TIMEOUT}={timeout}: send a number of seconds from 1 up")
    return Settings(
        transport,
        None if threshold is None else int(threshold),
        timing == "1",
        None if timeout is None else int(timeout),
    )
