"""Rules about requests and answers: their sizes and capture, conversion by NGINX, and batching."""

from collections.abc import Iterator
from dataclasses import replace

from infra.catalog import images
from infra.parameters.batch.job import OF_LINES, parse_media_type
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.table import ProjectPath
from infra.policy.container import Batching
from infra.preflight.rendering import format_count
from infra.preflight.rule import Findings, Parts, Rule, VariantRule
from model_packaging.requests.known_requests import explain_unbatchable
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE


class BodyRule(Rule):
    """A rule about the size of requests or responses, whose key is in [traffic].

    Between the API's limit and the developer guide's, the finding may be acknowledged. Above
    both, it may not.
    """

    def list_parts(self) -> Parts:
        return [()] if self.environment.variants else []

    def find_problems(self) -> Findings:
        key, kind = self.key, self.environment.kind
        name = key.removeprefix("traffic.")
        given, allowed = self.candidate.find_value(key), getattr(kind, name)
        remedy = "send fewer rows at once, or bytes instead of JSON"
        if given is None:
            question = "whether requests and responses are within SageMaker's size limits"
            yield self.build_unchecked(key, key, question)
        elif allowed < given <= kind.guide_bytes:
            yield self.build_finding(
                problem=f"{name} {given:,} exceeds the limit in the API model of InvokeEndpoint",
                allowed=f"at most {allowed:,}; AWS's hosting FAQ says {kind.guide_bytes:,}",
                remedy=f"{remedy}; or try one such request against your endpoint, and acknowledge this "
                "finding if it succeeds",
            )
        elif given > allowed:
            problem = f"{name} {given:,} is more than an endpoint of this kind accepts"
            most = f"at most {allowed:,}"
            finding = self.build_finding(problem=problem, allowed=most, remedy=remedy)
            yield replace(finding, acknowledgeable=False)


class RequestTooLarge(BodyRule, acknowledgeable=True):
    """InvokeEndpoint rejects a larger body before the container sees it.

    AWS states two limits for a real-time endpoint, 6,291,456 bytes (the API) and 25 MB (the guide's
    hosting FAQ): between them it may be acknowledged.
    Source: infra/catalog/limits.json, sagemaker-runtime BodyBlob (6,291,456);
    https://docs.aws.amazon.com/sagemaker/latest/dg/hosting-faqs.html (25 MB, 2026-11-22); for serverless
    and asynchronous endpoints infra/catalog/documented_limits.json
    """

    example = "traffic.request_bytes = 6291457"
    key = "traffic.request_bytes"


class AnswerTooLarge(BodyRule, acknowledgeable=True):
    """A larger answer does not reach the caller. AWS states the same two limits.

    Source: infra/catalog/documented_limits.json (answer_bytes, real_time_guide_bytes)
    """

    example = "traffic.answer_bytes = 6291457"
    key = "traffic.answer_bytes"


class CaptureOfNothing(Rule):
    """SageMaker rejects a data capture that keeps neither requests nor answers.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DataCaptureConfig.html
    """

    key = "capture.requests"
    problem = "neither requests nor answers are captured"
    remedy = "set requests or answers to true, or remove [capture]"
    reads = ("capture.answers",)

    def find_problems(self) -> Findings:
        capture = self.environment.capture
        if capture is not None and not capture.requests and not capture.answers:
            yield self.build_finding(given=[capture.requests, capture.answers])


# 29 MB for 200 KB of CSV with njs 0.9.9, which the Dockerfile of 2.20 pins; older images weren't measured.
MEMORY_BYTES_PER_BYTE = 145
# The size whose conversion takes 36 MB of memory per request.
SMALL_BYTES = 250_000
BYTES_PER_MB = 10**6


class ConversionCost(VariantRule, severity=Severity.WARNING):
    """Without a handler NGINX converts CSV and JSON lines, and each byte takes 145 bytes of memory then.

    JSON is not converted.
    Source: tensorflowServing.js and the Dockerfile in scripts/docker/tensorflow/inference of
    https://github.com/aws/deep-learning-containers, read 2026-11-22
    """

    allowed = f"at most {SMALL_BYTES:,} bytes, or a handler"

    def find_problems(self, placement: Placement) -> Findings:
        if placement.served.has_code is not False or placement.model.image is not None:
            return
        if not images.has_feature("rewritten_code", placement.tensorflow):
            return
        model = f"models.{placement.variant.model}"
        for key, sent_as, size in self._list_sent(placement):
            content_type = parse_media_type(sent_as or "")
            if content_type not in OF_LINES:
                continue
            if size is None:
                question = f"whether NGINX can convert {content_type}"
                yield self.build_unchecked(key, "traffic.request_bytes", question)
            elif size > SMALL_BYTES:
                memory_mb = size * MEMORY_BYTES_PER_BYTE / BYTES_PER_MB
                yield self.build_finding(
                    key,
                    f"NGINX converts {content_type} of {size:,} bytes itself, which takes about "
                    f"{memory_mb:,.0f} MB of memory for each request: {model} has no handler",
                    remedy=f'set {model}.handler = "servable", or send JSON, which is not converted',
                    reads=(model, "traffic.request_bytes"),
                )

    def _list_sent(self, placement: Placement) -> Iterator[tuple[str, str | None, int | None]]:
        """Yield (key, content type, bytes of the largest known body) of what callers send."""
        traffic = self.environment.traffic
        for content_type in traffic.content_types:
            yield "traffic.content_types", content_type, traffic.request_bytes
        rollout = self.environment.rollout
        for below, golden in placement.model.golden_requests.items():
            key = f"models.{placement.variant.model}.{below}.request"
            yield key, golden.request_content_type, self._measure_size(golden.request)
        if rollout is not None and (sent := rollout.golden_requests) is not None:
            size = self._measure_size(sent.body)
            yield "rollout.golden_requests.body", sent.request_content_type, size

    def _measure_size(self, file: ProjectPath) -> int:
        """Return a golden request's size in bytes; 0 if unreadable, which other rules report."""
        try:
            return file.path.stat().st_size
        except OSError:
            return 0


class BatchRule(VariantRule):
    """A rule about variants with server-side batching."""

    def list_parts(self) -> Parts:
        for placement in self.candidate.placements:
            if (batching := placement.variant.container.batching) is not None:
                yield placement, batching


class BatchBelowRequest(BatchRule):
    """A request with more rows than a batch is answered with 400.

    Source: observed with the code of image 2.20; the tuning article's 500-row requests need 500
    """

    key = "container.batching.max_batch_size"
    problem = (
        "max_batch_size {batching.max_batch_size} rejects requests of {rows} rows "
        "(traffic.rows_per_request)"
    )
    remedy = "raise it, or send fewer rows at once"
    reads = ("traffic.rows_per_request",)

    def find_problems(self, placement: Placement, batching: Batching) -> Findings:
        rows = self.environment.traffic.rows_per_request
        if batching.max_batch_size == 0:
            # Observed with the code of image 2.20: it starts.
            problem = "max_batch_size 0: every request fails with 400"
            yield self.build_finding(problem=problem, remedy="raise it", severity=Severity.WARNING)
        elif rows is None:
            question = "whether a request fits in a batch"
            yield self.build_unchecked(self.key, "traffic.rows_per_request", question)
        elif batching.max_batch_size < rows:
            yield self.build_finding(rows=rows)


class BatchTimeoutAboveAlarm(BatchRule):
    """A single request waits the whole timeout for its batch: the latency alarm is then always in ALARM.

    Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md
    """

    key = "container.batching.timeout_micros"
    problem = (
        "timeout_micros {batching.timeout_micros} is as long as the alarm's threshold, p99_latency_ms "
        "{alarm_ms:g}"
    )
    allowed = "less than {most:g}"
    remedy = "lower it, or raise alarms.p99_latency_ms"
    reads = ("alarms.p99_latency_ms",)

    def find_problems(self, placement: Placement, batching: Batching) -> Findings:
        alarm_ms = self.environment.alarms.p99_latency_ms
        if alarm_ms is not None and batching.timeout_micros >= (most := 1000 * alarm_ms):
            yield self.build_finding(alarm_ms=alarm_ms, most=most)


class BatchQueueShort(BatchRule, severity=Severity.WARNING):
    """If the queue is full, the caller gets an error, although the workers could have waited.

    Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/README.md
    (max_enqueued_batches)
    """

    key = "container.batching.max_enqueued_batches"
    problem = "{queues} of {queue} cannot hold the requests of {workers}"
    allowed = "{least} or more"
    remedy = "raise it, or remove it"
    reads = ("container.gunicorn_workers",)

    def find_problems(self, placement: Placement, batching: Batching) -> Findings:
        queue, processes = batching.max_enqueued_batches, placement.processes
        if queue is not None and queue * processes < placement.workers:
            yield self.build_finding(
                queues=format_count(processes, "queue"),
                queue=queue,
                workers=format_count(placement.workers, "worker"),
                least=-(-placement.workers // processes),
            )


class BatchFixedShape(BatchRule, acknowledgeable=True):
    """Batching merges requests along the first dimension, which must be unknown in all inputs and outputs.

    Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/batching/batching_session.h
    ("For batched calls", and SplitOutputTensors in batching_session.cc; 9d981c5, 2026-11-22)
    """

    remedy = "export the model with unknown first dimensions, or remove batching"

    def find_problems(self, placement: Placement, batching: Batching) -> Findings:
        for name in self.candidate.list_served_models(placement):
            for folder, info in self.candidate.read_saved_models(name):
                for signature, tensors in info.signatures.items():
                    if (why := explain_unbatchable(tensors)) is None:
                        continue
                    called = signature == DEFAULT_SIGNATURE or len(info.signatures) == 1
                    yield self.build_finding(
                        "container.batching",
                        f"{name}, version {folder.name}: requests of the signature {signature} cannot "
                        f"be merged: {why}",
                        reads=(f"models.{name}.saved_model",),
                        severity=Severity.ERROR if called else Severity.WARNING,
                    )
