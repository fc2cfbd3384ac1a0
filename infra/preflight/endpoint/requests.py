"""What callers send and get back, and the samples that are kept of it."""

from infra.parameters.environment import Environment
from infra.preflight.rule import Findings, Rule


class BodyRule(Rule):
    """A rule about the size of what goes through an endpoint."""

    def size(self, name: str, given: int | None, allowed: int) -> Findings:
        key = f"traffic.{name}"
        if given is None:
            yield self.not_checked(key, key)
        elif given > allowed:
            yield self.finding(
                key,
                f"{name} {given:,} is more than an endpoint of this kind carries",
                allowed=f"at most {allowed:,}",
                remedy="send fewer rows at once, or bytes instead of JSON",
            )


class RequestTooLarge(BodyRule):
    """InvokeEndpoint refuses a larger body before the container sees it.

    Source: infra/catalog/limits.json, sagemaker-runtime BodyBlob; of serverless and asynchronous
    endpoints infra/catalog/documented_limits.json
    """

    example = "traffic.request_bytes = 6291457"

    def check(self, environment: Environment) -> Findings:
        given = environment.traffic.request_bytes
        yield from self.size("request_bytes", given, environment.kind.request_bytes)


class AnswerTooLarge(BodyRule):
    """A larger answer reaches nobody.

    Source: infra/catalog/documented_limits.json (answer_bytes)
    """

    example = "traffic.answer_bytes = 6291457"

    def check(self, environment: Environment) -> Findings:
        given = environment.traffic.answer_bytes
        yield from self.size("answer_bytes", given, environment.kind.answer_bytes)


class CaptureOfNothing(Rule):
    """SageMaker refuses a data capture of neither requests nor answers.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DataCaptureConfig.html
    """

    example = "capture = { requests = false, answers = false }"

    def check(self, environment: Environment) -> Findings:
        capture = environment.capture
        if capture is not None and not capture.requests and not capture.answers:
            yield self.finding(
                "capture.requests",
                "neither requests nor answers are captured",
                given=[capture.requests, capture.answers],
                allowed="one of them, or both",
                remedy="set requests or answers to true, or take [capture] out",
                reads=("capture.answers",),
            )
