"""The cost of the conversions that NGINX does in the container of a model without a handler."""

from collections.abc import Iterator

from infra.catalog import images
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.rollout import CONTENT_TYPES
from infra.parameters.table import ProjectPath
from infra.preflight.rule import Findings, VariantRule

CONVERTED = (CONTENT_TYPES[".csv"], CONTENT_TYPES[".jsonl"], "application/jsons")
# The size whose conversion takes 40 MB of memory per request.
SMALL_BYTES = 10_000
MEMORY_BYTES_PER_BYTE = 4000
BYTES_PER_GB = 10**9


class ConversionCost(VariantRule):
    """Without a handler NGINX converts CSV and JSON lines with a regular expression for each position.

    Each byte takes about 4 KB of memory and up to 5 microseconds while it is converted. Measured with
    the code of the 2.20 image on njs 0.7.9: 200 KB took 246 CPU-ms (14.5 with Servable's handler),
    400 KB 2 s and 1.7 GB, 1.5 MB 7 to 8 s, and at 5.6 MB the kernel killed the process because memory
    ran out. JSON is not converted. Images before 2.20 were not measured.
    Source: tensorflowServing.js in scripts/docker/tensorflow/inference/sagemaker of
    https://github.com/aws/deep-learning-containers, read 2026-11-22
    """

    severity = Severity.WARNING
    example = """\
traffic = { request_bytes = 200_000, content_types = ["text/csv"] }"""
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
                yield self.not_checked(key, "traffic.request_bytes")
            elif size > SMALL_BYTES:
                memory = size * MEMORY_BYTES_PER_BYTE / BYTES_PER_GB
                yield self.finding(
                    key,
                    f"NGINX converts {content_type} of {size:,} bytes itself, which takes about "
                    f"{memory:.2g} GB of memory for each request: {model} has no handler",
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
