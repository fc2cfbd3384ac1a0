"""[rollout.golden_requests]: what is asked while an update bakes."""

from typing import Annotated

from pydantic import Field

from infra.parameters.table import Table


class GoldenRequests(Table):
    """One request, again and again, from a function of the endpoint's own stack."""

    body: str = Field(
        min_length=1,
        description="File with the request, as examples/ranker/golden/request-rows.json. It travels "
        "inside the stack: at most 4 KB.",
    )
    per_minute: Annotated[int, Field(ge=1, le=600)] = Field(
        default=60,
        description="Requests a minute, evenly, while the endpoint is updating and at no other time. "
        "60 show a share of 5xx of a few percent within minutes, also to a canary of one in ten.",
    )
    content_type: str | None = Field(
        default=None,
        pattern=r"^[\x20-\x7e]{1,128}$",
        description="Of the body. Left out, by the file's name: application/json for .json, and so on.",
    )
