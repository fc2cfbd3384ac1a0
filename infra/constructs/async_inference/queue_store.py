"""Where an asynchronous endpoint's requests, answers and failures lie."""

from constructs import Construct

from infra.constructs.model.places import QueuePlaces
from infra.constructs.storage.retained_store import RetainedStore
from infra.parameters.retained import Asynchronous


class QueueStore(RetainedStore):
    """Callers put requests there, SageMaker writes answers beside them."""

    def __init__(self, scope: Construct, construct_id: str, *, asynchronous: Asynchronous) -> None:
        super().__init__(
            scope,
            construct_id,
            holds="queue",
            said="asynchronous requests and answers",
            why_one_region="requests and answers of one region's endpoint: without it nobody reads them",
            keep_days=asynchronous.keep_days,
            kms_key=asynchronous.kms_key,
        )
        self.places = QueuePlaces(
            requests=self.destination("requests"),
            answers=self.destination("answers"),
            failures=self.destination("failures"),
        )
