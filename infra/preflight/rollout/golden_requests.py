"""What is asked while an update bakes."""

from dataclasses import replace

from infra.parameters.environment import Environment
from infra.parameters.rollout import CONTENT_TYPES
from infra.preflight.model.known_requests import KnownRequestRule
from infra.preflight.rule import Findings

# It stands in the rule's target in base64: 8192 characters with all that is around it.
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html (Input)
MOST_BYTES = 4096
KEY = "rollout.golden_requests.body"


class RolloutGoldenRequest(KnownRequestRule):
    """The request stands in the template, which EventBridge hands to the function that sends it.

    One that the new fleet refuses takes every update back; it is read as golden-request reads its own.
    Source: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html
    """

    example = """\
alarms.p99_latency_ms = 100
rollout = { strategy = "canary", golden_requests = { body = "golden/nowhere.json" } }"""

    def check(self, environment: Environment) -> Findings:
        golden = environment.rollout.golden_requests if environment.rollout else None
        if golden is None:
            return
        if environment.kind.queued:
            yield self.finding(
                "rollout.golden_requests",
                "an asynchronous endpoint takes requests from S3 only, and golden requests wait for "
                "their answers",
                allowed="endpoints that answer at once",
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
                remedy="ask with fewer rows",
            )
            return
        if golden.sent_as is None:
            yield self.finding(
                "rollout.golden_requests.content_type",
                f"what {golden.body} holds is not in its name",
                given=golden.body,
                allowed=f"a name that ends in {', '.join(CONTENT_TYPES)}, or content_type",
                remedy="set content_type",
            )
            return
        asked = [
            (one, one.variant.model)
            for one in self.candidate.placements
            if not one.variant.shadow and one.model.multi_model is None
        ]
        for one in self.judge(KEY, golden.body, golden.sent_as, asked):
            yield replace(one, acknowledgeable=True)
