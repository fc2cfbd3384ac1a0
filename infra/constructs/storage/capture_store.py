"""Where samples of requests and answers are kept."""

from constructs import Construct

from infra.constructs.model.places import Destination
from infra.constructs.storage.retained_store import RetainedStore
from infra.parameters.retained import Capture

__all__ = ["CaptureStore", "Destination"]

PREFIX = "captured"


class CaptureStore(RetainedStore):
    """Samples outlive the endpoint that they are of."""

    def __init__(self, scope: Construct, construct_id: str, *, capture: Capture) -> None:
        super().__init__(
            scope,
            construct_id,
            holds="samples",
            said="captured requests and answers",
            why_one_region="samples for looking at, and the log of who did: losing a region loses no service",
            keep_days=capture.keep_days,
            kms_key=capture.kms_key,
        )
        self.captured = self.destination(PREFIX)
