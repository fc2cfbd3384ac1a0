"""Locations of samples, requests and answers in the retained buckets.

They are separate from the buckets, whose CDK modules would slow down every synth.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A prefix in a bucket, with its ARN and key, for whoever writes there."""

    url: str
    objects_arn: str
    key_arn: str


@dataclass(frozen=True, kw_only=True)
class AsyncInferenceLocations:
    """Three prefixes of one bucket."""

    requests: Destination
    answers: Destination
    failures: Destination
