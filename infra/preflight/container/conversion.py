"""The cost of the conversions that NGINX does in the container of a model without a handler."""

from collections.abc import Iterator

from infra.catalog import images
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.rollout import CONTENT_TYPES
from infra.parameters.table import ProjectPath
from infra.preflight.rule import Findings, VariantRule

CONVERTED = (CONTENT_TYPES[".csv"], CONTENT_TYPES[".jsonl"], "application/jsons")
# 29 MB for 200 KB of CSV, with njs's command line; see the rule's source.
MEMORY_BYTES_PER_BYTE = 145
# The size whose conversion takes 36 MB of memory per request.
SMALL_BYTES = 250_000
BYTES_PER_MB = 10**6


class ConversionCost(VariantRule):
    """Without a handler NGINX converts CSV and JSON lines with a regular expression for each position.

    Each byte takes about 145 bytes of memory while it is converted. JSON is not converted.
    Source: tensorflowServing.js and the Dockerfile in scripts/docker/tensorflow/inference of
    https://github.com/aws/deep-learning-containers, read 2026-11-22
    """

    # Each byte takes about 145 bytes of memory while it is converted: 200 KB of CSV took 29 MB with
    # njs 0.9.9, which the Dockerfile of 2.20 pins with NGINX 1.30.3; the time was not measured. An
    # image of your own with njs 0.7.9 takes 4 KB and up to 5 microseconds a byte: 864 MB for the
    # same body. JSON is not converted. Images before 2.20 were not measured.

    severity = Severity.WARNING
    example = """\
traffic = { request_bytes = 400_000, content_types = ["text/csv"] }"""
    allowed = f"at most {SMALL_BYTES:,} bytes, or a handler"

    def look(self, placement: Placement) -> Findings:
        if placement.served.has_code is not False or placement.model.image is not None:
            return
        if not images.has("rewritten_code", placement.tensorflow):
            return
        model = f"models.{placement.variant.model}"
        for key, sent_as, size in self._sent(placement):
            # Parameters and case are ignored.
            content_type = (sent_as or "").partition(";")[0].strip().lower()
            if content_type not in CONVERTED:
                continue
            if size is None:
                question = f"whether NGINX can convert {content_type}"
                yield self.not_checked(key, "traffic.request_bytes", question)
            elif size > SMALL_BYTES:
                memory_mb = size * MEMORY_BYTES_PER_BYTE / BYTES_PER_MB
                yield self.finding(
                    key,
                    f"NGINX converts {content_type} of {size:,} bytes itself, which takes about "
                    f"{memory_mb:,.0f} MB of memory for each request: {model} has no handler",
                    remedy=f'set {model}.handler = "servable", or send JSON, which is not converted',
                    reads=(model, "traffic.request_bytes"),
                )

    def _sent(self, placement: Placement) -> Iterator[tuple[str, str | None, int | None]]:
        """(key, content type, bytes of the largest known body) for each content type that is sent."""
        traffic = self.environment.traffic
        for content_type in traffic.content_types:
            yield "traffic.content_types", content_type, traffic.request_bytes
        rollout = self.environment.rollout
        for below, golden in placement.model.golden_requests.items():
            key = f"models.{placement.variant.model}.{below}.request"
            yield key, golden.sent_as, self._size(golden.request)
        if rollout is not None and rollout.golden_requests is not None:
            sent = rollout.golden_requests
            yield "rollout.golden_requests.body", sent.sent_as, self._size(sent.body)

    def _size(self, file: ProjectPath) -> int:
        """Size of a golden request in bytes; 0 if it cannot be read, which other rules report."""
        try:
            return file.path.stat().st_size
        except OSError:
            return 0
