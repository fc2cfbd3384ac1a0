"""Rules about what an asynchronous endpoint cannot have."""

from infra.parameters.finding import Severity
from infra.preflight.rule import Findings, Parts, Rule


class AsynchronousRule(Rule):
    """A rule about asynchronous endpoints."""

    def parts(self) -> Parts:
        return [] if self.environment.asynchronous is None else [()]


class AsynchronousMultiModel(AsynchronousRule):
    """InvokeEndpointAsync has no TargetModel: a request could not name one of several models.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointAsync.html
    """

    example = """\
asynchronous = {}
models.one.saved_model = "model"
models.many.multi_model = ["one"]
variants.primary.model = "many\""""
    key = "variants.{name}.model"
    problem = "{variant.model} has several models, and an asynchronous request cannot name one"
    allowed = "a model with saved_model or artifact"
    remedy = "choose another model, or remove [asynchronous]"
    reads = ("asynchronous",)

    def look(self) -> Findings:
        for name, variant in self.environment.variants.items():
            model = self.environment.models.get(variant.model)
            if model is not None and model.multi_model is not None:
                yield self.finding(name=name, variant=variant)


class AsynchronousSeveral(AsynchronousRule):
    """The queue and its metrics belong to the endpoint: scaling cannot see the load of one variant.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html
    (ApproximateBacklogSizePerInstance has the dimension EndpointName only)
    """

    acknowledgeable = True
    example = """\
asynchronous = {}
variants.second = { model = "ranker", instance_type = "ml.c5.xlarge" }"""
    key = "asynchronous"
    problem = "{count} variants share one queue, and its length is known only for all together"
    allowed = "one variant"
    remedy = "write an environment of its own for each variant"
    reads = ("variants",)

    def look(self) -> Findings:
        count = len(self.environment.production_variants)
        if count > 1:
            yield self.finding(given=count, count=count)


class AsynchronousCapture(AsynchronousRule):
    """Every asynchronous request and answer is already in S3: a capture would store it twice.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture.html (only
    real-time endpoints and batch transform)
    """

    severity = Severity.WARNING
    example = """\
asynchronous = {}
capture = { sample_percent = 10 }"""
    key = "capture.sample_percent"
    problem = (
        "sample_percent {environment.capture.sample_percent}: [asynchronous] already keeps every "
        "request and answer"
    )
    allowed = "no [capture]"
    remedy = "take [capture] out"
    reads = ("asynchronous",)

    def look(self) -> Findings:
        if self.environment.capture is not None:
            yield self.finding(environment=self.environment)
