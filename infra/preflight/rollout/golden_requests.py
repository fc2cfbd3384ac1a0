"""What is asked while an update bakes."""

from infra.parameters.environment import Environment
from infra.parameters.rollout import CONTENT_TYPES
from infra.preflight.rule import Findings, Rule

# It stands in the rule's target in base64: 8192 characters with all that is around it.
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html (Input)
MOST_BYTES = 4096
KEY = "rollout.golden_requests.body"


class RolloutGoldenRequest(Rule):
    """The request stands in the template, which EventBridge hands to the function that sends it.

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
        try:
            size = (self.loaded.root / golden.body).stat().st_size
            readable = (self.loaded.root / golden.body).is_file()
        except OSError:
            size, readable = 0, False
        if not readable:
            yield self.finding(
                KEY,
                f"{golden.body} is no file",
                allowed="a file with one request, from the project's folder",
                remedy="write one there, as `servable init` writes golden/NAME/request.json",
            )
        elif size > MOST_BYTES:
            yield self.finding(
                KEY,
                f"{golden.body} has {size} bytes",
                allowed=f"at most {MOST_BYTES}",
                remedy="ask with fewer rows",
            )
        if golden.sent_as is None:
            yield self.finding(
                "rollout.golden_requests.content_type",
                f"what {golden.body} holds is not in its name",
                given=golden.body,
                allowed=f"a name that ends in {', '.join(CONTENT_TYPES)}, or content_type",
                remedy="set content_type",
            )
