"""[traffic]: what callers send, as far as it is known."""

from typing import Annotated

from pydantic import Field

from infra.parameters.table import Table

RequestsPerSecond = Annotated[float, Field(gt=0, le=1_000_000)]
# Larger than InvokeEndpoint takes, so that the rule can say what it does take.
Bytes = Annotated[int, Field(ge=1, le=10_000_000_000)]


class Traffic(Table):
    """What is left out is not checked, and `servable check` says so."""

    peak_rps: RequestsPerSecond | None = Field(
        default=None,
        description="Requests per second of the busiest minute, all variants together.",
    )
    quiet_rps: RequestsPerSecond | None = Field(
        default=None,
        description="Requests per second of the quietest hour in which somebody deploys.",
    )
    rows_per_request: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None, description="Rows of the largest request."
    )
    request_bytes: Bytes | None = Field(default=None, description="Body of the largest request.")
    answer_bytes: Bytes | None = Field(default=None, description="Body of the largest answer.")
    caller_timeout_ms: Annotated[float, Field(gt=0, le=600_000)] | None = Field(
        default=None, description="Milliseconds after which a caller gives up."
    )
