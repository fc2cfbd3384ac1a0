"""Rules about golden requests that are sent while an update bakes."""

from dataclasses import replace

from infra.parameters.rollout import CONTENT_TYPES
from infra.preflight.model.known_requests import KnownRequestRule
from infra.preflight.rule import Findings

# The target's Input holds the request in base64, and has at most 8192 characters in all.
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html (Input)
MOST_BYTES = 4096
KEY = "rollout.golden_requests.body"


class RolloutGoldenRequest(KnownRequestRule):
    """The template holds the request, which EventBridge passes to the function that sends it.

    Source: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html
    """

    # A request that the new fleet refuses would roll every update back; it is checked as
    # golden-request checks its own.

    example = """\
alarms.p99_latency_ms = 100
rollout = { strategy = "canary", golden_requests = { body = "golden/nowhere.json" } }"""

    def look(self) -> Findings:
        golden = self.environment.rollout.golden_requests if self.environment.rollout else None
        if golden is None:
            return
        if self.environment.kind.queued:
            yield self.finding(
                "rollout.golden_requests",
                "an asynchronous endpoint takes requests only from S3, but golden requests wait for "
                "their answers",
                allowed="real-time and serverless endpoints",
                remedy="take [rollout.golden_requests] out",
                reads=("asynchronous",),
            )
        file = self.there(golden.body)
        if file is None:
            yield self.no_file(KEY, golden.body)
        elif (size := file.stat().st_size) > MOST_BYTES:
            yield self.finding(
                KEY,
                f"{golden.body} has {size} bytes",
                allowed=f"at most {MOST_BYTES}",
                remedy="send fewer rows",
            )
            return
        if golden.sent_as is None:
            yield self.finding(
                "rollout.golden_requests.content_type",
                f"the content type of {golden.body} cannot be derived from its extension",
                given=golden.body,
                allowed=f"a name that ends in {', '.join(CONTENT_TYPES)}, or content_type",
                remedy="set content_type",
            )
            return
        targets = [
            (placement, placement.variant.model)
            for placement in self.candidate.placements
            if not placement.variant.shadow and placement.model.multi_model is None
        ]
        for finding in self.judge(KEY, golden.body, golden.sent_as, targets):
            yield replace(finding, acknowledgeable=True)
