"""One prediction: arrays encoded, sent, answered and decoded."""

from collections.abc import Mapping

from servable_client.arrays import Arrays, Outputs
from servable_client.errors import BodyTooLargeError, PredictionError, RefusedError
from servable_client.exchange import Answer, Deadline, Request
from servable_client.forks import in_each_process
from servable_client.formats import ANY_ANSWER, content_type, decode, encode
from servable_client.options import Options
from servable_client.retries import Retries
from servable_client.transport import Transport

UNSUPPORTED = 415
Trace = Mapping[str, str | None]
"""`inference_id` and `traceparent` of a `Request`."""


class Calls:
    """The calls to one endpoint. Thread-safe."""

    def __init__(self, transport: Transport, retries: Retries, *, largest_body_bytes: int) -> None:
        self._transport = transport
        self._largest_body_bytes = largest_body_bytes
        self._retries = retries
        in_each_process(self)

    def _start(self) -> None:
        self._json_only = False

    def predict(
        self,
        arrays: Arrays,
        options: Options,
        deadline: Deadline,
        form: str,
        trace: Trace,
    ) -> Outputs:
        """Encode, send and decode one prediction.

        `form`: the format, unless the options name another or the container takes only JSON.
        Raises `PredictionError`.
        """
        form = options.format or ("json" if self._json_only else form)
        try:
            ready = request(arrays, form, options, trace)
            answer = self.send(ready, options, deadline)
        except RefusedError as refusal:
            # A container without Servable's handler has read only the content type.
            if refusal.status != UNSUPPORTED or options.format or form == "json":
                raise
            again = request(arrays, "json", options, trace)
            try:
                answer = self.send(again, options, deadline)
            except PredictionError as failure:
                failure.attempts += refusal.attempts
                raise
            self._json_only = True
        return Outputs(decode(answer.content_type, answer.body), answer.variant)

    def send(self, request: Request, options: Options, deadline: Deadline) -> Answer:
        """Send a request. Raises `PredictionError`; `BodyTooLargeError` before anything is sent."""
        if len(request.body) > self._largest_body_bytes:
            raise BodyTooLargeError(
                f"the {request.content_type} body has {len(request.body):,} bytes and SageMaker "
                f"takes {self._largest_body_bytes:,}; cut the batch with split=, send another format, "
                "or submit() it to an asynchronous endpoint"
            )
        return self._retries.run(
            lambda seconds: self._transport.send(request, seconds=seconds),
            deadline,
            unsafe=options.retry_unsafe,
        )


def request(arrays: Arrays, form: str, options: Options, trace: Trace) -> Request:
    """Return the encoded request. Raises `BadInputError`."""
    # format="json" asks for the model server's own JSON, which the handler relays unchanged.
    accept = content_type("json") if options.format == "json" else ANY_ANSWER
    return Request(
        body=encode(form, arrays, options.selection),
        content_type=content_type(form),
        accept=accept,
        selection=options.selection,
        **trace,
    )
