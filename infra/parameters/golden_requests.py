"""[rollout.golden_requests]: what is asked while an update bakes."""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field

from infra.parameters.table import Table

CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".csv": "text/csv",
    ".npy": "application/x-npy",
    ".pb": "application/x-protobuf",
}


class GoldenRequests(Table):
    """One request, again and again, from a function of the endpoint's own stack."""

    body: str = Field(
        min_length=1,
        description="File with the request, as examples/ranker/golden/request-rows.json. It travels "
        "inside the stack: at most 4 KiB.",
    )
    per_minute: Annotated[int, Field(ge=1, le=300)] = Field(
        default=60,
        description="Requests a minute, evenly, while the endpoint is updating and at no other time. "
        "60: with half of them on the new instances, one failure in a hundred shows within minutes.",
    )
    content_type: str | None = Field(
        default=None,
        pattern=r"^[\x20-\x7e]{1,128}$",
        description="Of the body. Left out, by the file's name: application/json for .json, and so on.",
    )

    @property
    def sent_as(self) -> str | None:
        """The content type; None where neither key nor name says it."""
        return self.content_type or CONTENT_TYPES.get(PurePosixPath(self.body).suffix)
