"""Samples of requests and answers."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule


class CaptureOfNothing(Rule):
    """SageMaker refuses a data capture of neither requests nor answers.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DataCaptureConfig.html
    """

    id = "capture-of-nothing"
    example = "capture = { requests = false, answers = false }"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        capture = environment.capture
        if capture is not None and not capture.requests and not capture.answers:
            yield self.finding(
                loaded,
                "capture.requests",
                [capture.requests, capture.answers],
                "neither requests nor answers are captured",
                allowed="one of them, or both",
                remedy="set requests or answers to true, or take [capture] out",
                reads=("capture.answers",),
            )
