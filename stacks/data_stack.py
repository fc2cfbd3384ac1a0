"""The stack ENV/data with the resources that outlive the endpoint, if there are any."""

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.storage.locations import AsyncInferenceLocations, Destination
from infra.constructs.storage.retained_store import AsyncInferenceStore, CaptureStore
from infra.parameters.endpoint import Asynchronous, Capture


class DataStack(cdk.Stack):
    """The stack of the buckets for captured and queued requests.

    ENV/endpoint imports from this stack, and never the other way. Its exports don't change.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        capture: Capture | None,
        tags: Mapping[str, str],
        asynchronous: Asynchronous | None = None,
        stack_name: str | None = None,
        env: cdk.Environment | None = None,
    ) -> None:
        about = f"Retained data of the SageMaker endpoint {endpoint_name}"
        super().__init__(
            scope, construct_id, stack_name=stack_name, env=env, description=about, tags=tags
        )
        self.captured: Destination | None = None
        self.queued: AsyncInferenceLocations | None = None
        if capture:
            samples = CaptureStore(self, "Capture", capture=capture, fixed_exports=True)
            self.captured = samples.captured
        if asynchronous:
            kept = AsyncInferenceStore(self, "Queue", asynchronous=asynchronous, fixed_exports=True)
            self.queued = kept.locations
