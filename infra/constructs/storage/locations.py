"""Where samples, requests and answers lie: what others know of the stores that keep them.

Apart from the stores, whose CDK modules cost every synth time that most have no use for.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Destination:
    """What writes there needs to know."""

    url: str
    objects_arn: str
    key_arn: str


@dataclass(frozen=True, kw_only=True)
class AsyncInferenceLocations:
    """Three prefixes of one bucket."""

    requests: Destination
    answers: Destination
    failures: Destination
