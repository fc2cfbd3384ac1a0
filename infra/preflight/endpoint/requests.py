"""Rules about the sizes of requests and answers, and about their capture."""

from dataclasses import replace

from infra.preflight.rule import Findings, Parts, Rule


class BodyRule(Rule):
    """A rule about the size of requests or answers, whose key is in [traffic].

    Between the API's limit and the developer guide's, the finding may be acknowledged; above both, it
    may not.
    """

    def parts(self) -> Parts:
        return [()] if self.environment.variants else []

    def look(self) -> Findings:
        key, kind = self.key, self.environment.kind
        name = key.removeprefix("traffic.")
        given, allowed, guide = self.candidate.value_of(key), getattr(kind, name), kind.guide_bytes
        if given is None:
            question = "whether requests and responses are within SageMaker's size limits"
            yield self.not_checked(key, key, question)
        elif allowed < given <= guide:
            yield self.finding(
                key,
                f"{name} {given:,} is more than the API's model of InvokeEndpoint allows",
                allowed=f"at most {allowed:,}; AWS's hosting FAQ says {guide:,}",
                remedy="send fewer rows at once, or bytes instead of JSON; or try one such request against "
                "an endpoint of yours, and acknowledge this finding if it is answered",
            )
        elif given > allowed:
            finding = self.finding(
                key,
                f"{name} {given:,} is more than an endpoint of this kind carries",
                allowed=f"at most {allowed:,}",
                remedy="send fewer rows at once, or bytes instead of JSON",
            )
            yield replace(finding, acknowledgeable=False)


class RequestTooLarge(BodyRule):
    """InvokeEndpoint refuses a larger body before the container sees it.

    AWS states two limits for a real-time endpoint, 6,291,456 bytes (the API) and 25 MB (the guide's
    hosting FAQ): between them the finding may be acknowledged.
    Source: infra/catalog/limits.json, sagemaker-runtime BodyBlob (6,291,456);
    https://docs.aws.amazon.com/sagemaker/latest/dg/hosting-faqs.html (25 MB, 2026-11-22); for serverless
    and asynchronous endpoints infra/catalog/documented_limits.json
    """

    acknowledgeable = True
    example = "traffic.request_bytes = 6291457"
    key = "traffic.request_bytes"


class AnswerTooLarge(BodyRule):
    """A larger answer does not reach the caller.

    AWS states two limits for a real-time endpoint, 6,291,456 bytes (the API) and 25 MB (the guide's
    hosting FAQ): between them the finding may be acknowledged.
    Source: infra/catalog/documented_limits.json (answer_bytes, real_time_guide_bytes)
    """

    acknowledgeable = True
    example = "traffic.answer_bytes = 6291457"
    key = "traffic.answer_bytes"


class CaptureOfNothing(Rule):
    """SageMaker refuses a data capture that keeps neither requests nor answers.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DataCaptureConfig.html
    """

    example = "capture = { requests = false, answers = false }"
    key = "capture.requests"
    problem = "neither requests nor answers are captured"
    allowed = "one of them, or both"
    remedy = "set requests or answers to true, or take [capture] out"
    reads = ("capture.answers",)

    def look(self) -> Findings:
        capture = self.environment.capture
        if capture is not None and not capture.requests and not capture.answers:
            yield self.finding(given=[capture.requests, capture.answers])
