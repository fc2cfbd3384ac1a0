"""A fake endpoint for application tests: a function computes the outputs, and nothing is sent."""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from servable_client.endpoint import Endpoint
from servable_client.errors import BadInputError, PredictionError
from servable_client.exchange import Answer, Job, Request
from servable_client.forks import initialize_in_each_process
from servable_client.formats import Array, as_arrays, load_codecs
from servable_tensors import UNNAMED

Model = Callable[..., Mapping[str, Any]]


class FakeEndpoint(Endpoint):
    """An `Endpoint` without the network: `FakeEndpoint(lambda x: {"y": 2 * x})`.

    Inputs are encoded and decoded, batches split, limits kept, failures raised or retried.
    The model gets arrays by name, or one array if the input has no name. `failures` are raised by
    the first requests, one each, as SageMaker would respond; None lets a request succeed.
    `calls` are the inputs that the model got, in that order.
    """

    def __init__(
        self,
        model: Model,
        *,
        failures: Iterable[PredictionError | None] = (),
        name: str = "fake",
        **options: Any,
    ) -> None:
        self._fake = _FakeTransport(model, failures)
        # A test does not wait between attempts.
        super().__init__(name, transport=self._fake, sleep=lambda seconds: None, **options)

    @property
    def calls(self) -> list[dict[str, Array]]:
        return self._fake.calls


class _FakeTransport:
    def __init__(self, model: Model, failures: Iterable[PredictionError | None]) -> None:
        self.calls: list[dict[str, Array]] = []
        self._model = model
        self._failures = iter(failures)
        initialize_in_each_process(self)

    def _initialize_process_state(self) -> None:
        self._lock = threading.Lock()

    def send(self, request: Request, *, seconds: float) -> Answer:
        from servable_tensors.predict_messages import build_model_spec

        with self._lock:
            failure = next(self._failures, None)
        if failure is not None:
            raise failure
        by_type = {codec.content_type: codec for codec in load_codecs().values()}
        if request.content_type not in by_type:
            problem = f"unsupported content type; a FakeEndpoint reads {', '.join(by_type)}"
            raise BadInputError(problem)
        # Decoded as the model server would.
        inputs = by_type[request.content_type].read_inputs(request.body)
        with self._lock:
            self.calls.append(inputs)
        unnamed = UNNAMED in inputs
        outputs = self._model(inputs[UNNAMED]) if unnamed else self._model(**inputs)
        codec = load_codecs()["protobuf"]
        spec = partial(build_model_spec, "", None, None)
        body = codec.encode_response(as_arrays(outputs, {}), rows=False, model_spec=spec)
        variant = request.selection.variant or "fake"
        return Answer(body=body, content_type=codec.content_type, variant=variant)

    def submit(self, request: Request, *, seconds: float, upload_to: str | None) -> Job:
        answer = self.send(request, seconds=seconds)
        name = request.inference_id or f"job-{len(self.calls)}"
        return Job(
            inference_id=name,
            output_location=f"s3://fake/{name}.out",
            failure_location=None,
            look=lambda: answer,
        )

    def close(self) -> None:
        pass
