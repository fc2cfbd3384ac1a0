"""Rules about server-side batching in relation to requests, alarms and workers."""

from dataclasses import replace

from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.policy.container import Batching
from infra.preflight.rendering import counted
from infra.preflight.rule import Findings, Parts, VariantRule
from model_packaging.requests.known_requests import unbatchable
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE

MICROS_PER_MS = 1000


class BatchRule(VariantRule):
    """A rule about variants with server-side batching."""

    def parts(self) -> Parts:
        for placement in self.candidate.placements:
            if (batching := placement.variant.container.batching) is not None:
                yield placement, batching


class BatchBelowRequest(BatchRule):
    """A request with more rows than a batch is answered with 400.

    Source: observed with the code of image 2.20; the tuning article's 500-row requests need 500
    """

    example = """\
traffic.rows_per_request = 500
variants.primary.container.batching = { max_batch_size = 64 }"""
    remedy = "raise it, or send fewer rows at once"
    reads = ("traffic.rows_per_request",)

    def look(self, placement: Placement, batching: Batching) -> Findings:
        rows = self.environment.traffic.rows_per_request
        key = placement.key("container.batching.max_batch_size")
        if batching.max_batch_size == 0:
            # Observed with the code of image 2.20: it starts.
            problem = "max_batch_size 0: every request is answered with 400"
            finding = self.finding(key, problem, allowed="1 or more", remedy="raise it")
            yield replace(finding, severity=Severity.WARNING)
        elif rows is None:
            question = "whether a request fits in a batch"
            yield self.not_checked(key, "traffic.rows_per_request", question)
        elif batching.max_batch_size < rows:
            yield self.finding(
                key,
                f"max_batch_size {batching.max_batch_size} refuses requests of {rows} rows "
                "(traffic.rows_per_request)",
                allowed=f"{rows} or more",
            )


class BatchTimeoutAboveAlarm(BatchRule):
    """A single request waits the whole timeout for its batch: the latency alarm is then always in ALARM.

    Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md
    """

    example = """\
alarms.p99_latency_ms = 50
variants.primary.container.batching = { timeout_micros = 60000 }"""
    remedy = "lower it, or raise alarms.p99_latency_ms"
    reads = ("alarms.p99_latency_ms",)

    def look(self, placement: Placement, batching: Batching) -> Findings:
        alarm_ms = self.environment.alarms.p99_latency_ms
        if alarm_ms is not None and batching.timeout_micros >= alarm_ms * MICROS_PER_MS:
            yield self.finding(
                placement.key("container.batching.timeout_micros"),
                f"timeout_micros {batching.timeout_micros} is as long as the alarm's threshold, "
                f"p99_latency_ms {alarm_ms:g}",
                allowed=f"less than {alarm_ms * MICROS_PER_MS:g}",
            )


class BatchQueueShort(BatchRule):
    """If the queue is full, the caller gets an error, although the workers could have waited.

    Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md
    (max_enqueued_batches)
    """

    severity = Severity.WARNING
    example = """\
models.ranker.code = "code"
variants.primary.container.gunicorn_workers = 16
variants.primary.container.batching = { max_enqueued_batches = 4 }"""
    remedy = "raise it, or take it out"

    def look(self, placement: Placement, batching: Batching) -> Findings:
        queue = batching.max_enqueued_batches
        if queue is not None and queue * placement.processes < placement.workers:
            least = -(-placement.workers // placement.processes)
            yield self.finding(
                placement.key("container.batching.max_enqueued_batches"),
                f"{counted(placement.processes, 'queue')} of {queue} hold less than "
                f"{counted(placement.workers, 'worker')}",
                allowed=f"{least} or more",
                reads=(placement.key("container.gunicorn_workers"),),
            )


class BatchFixedShape(BatchRule):
    """Batching merges requests along the first dimension, which must be open in all inputs and outputs.

    Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/batching_session.h
    ("For batched calls", and SplitOutputTensors in batching_session.cc; 9d981c5, 2026-11-22)
    """

    # A value without dimensions is then answered with 400, an output that does not grow with its
    # batch fails, and a fixed first dimension no longer matches as soon as two requests are merged.

    acknowledgeable = True
    example = "# container.batching for a model exported with the input shape [1, 224, 224, 3]"
    allowed = "a first dimension that is open (None, -1) in every input and output"
    remedy = "export the model with open first dimensions, or remove batching"

    def look(self, placement: Placement, batching: Batching) -> Findings:
        for name in self.candidate.served_by(placement):
            for folder, info in self.candidate.saved_models(name):
                for signature, tensors in info.signatures.items():
                    why = unbatchable(tensors)
                    if why is None:
                        continue
                    finding = self.finding(
                        placement.key("container.batching"),
                        f"{name}, version {folder.name}: requests of the signature {signature} cannot "
                        f"be merged: {why}",
                        reads=(f"models.{name}.saved_model",),
                    )
                    called = signature == DEFAULT_SIGNATURE or len(info.signatures) == 1
                    yield finding if called else replace(finding, severity=Severity.WARNING)
