"""Arrays in, arrays out: one endpoint, deployed, embedded or on this machine."""

import time
import uuid
from collections.abc import Callable
from typing import Any, Literal, NoReturn, Self

from servable_client.arrays import Outputs, as_arrays, typed
from servable_client.batches import Batches, Told
from servable_client.calls import Calls, request
from servable_client.errors import BadInputError
from servable_client.exchange import GUIDE_BODY_BYTES, MOST_BODY_BYTES, Answer, Deadline, Request
from servable_client.formats import chosen
from servable_client.job import Job
from servable_client.options import Options
from servable_client.retries import Backoff, Retries
from servable_client.split import Part, Split, as_split
from servable_client.transport import Transport

# boto3's own pool; and as many parts as the split of S4's ranking model.
CONNECTIONS = 10


class Endpoint:
    """Safe between threads, and in forked children, which begin with connections of their own.

    `close` it, or use it in a `with`, to end its connections; then it is closed for good.

        with Endpoint("ranker-prod") as ranker:
            ranker.predict(feat_ids=ids, feat_vals=values)["prob"]

    `options`: format, timeout_seconds, retry_unsafe, variant, model, version, signature,
    target_model, for every call; see `servable_client.options`.
    """

    def __init__(
        self,
        name: str,
        *,
        region: str | None = None,
        session: Any = None,
        endpoint_url: str | None = None,
        upload_to: str | None = None,
        connections: int = CONNECTIONS,
        attempts: int = Backoff.attempts,
        largest_body_bytes: int = MOST_BODY_BYTES,
        transport: Transport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        **options: Any,
    ) -> None:
        """`session`: a boto3 Session. `endpoint_url`: of another AWS than AWS's, as boto3 has it.

        `upload_to`: where `submit` puts requests, as s3://bucket/prefix/. `largest_body_bytes`: what
        AWS's API states; its developer guide states 25,000,000 for the same endpoints, so that who has
        seen a larger request answered may say so. Raises `BadInputError`.
        """
        if connections < 1 or attempts < 1:
            raise BadInputError("connections and attempts: give 1 or more")
        if not 1 <= largest_body_bytes <= GUIDE_BODY_BYTES:
            raise BadInputError(
                f"largest_body_bytes {largest_body_bytes:,}: give 1 to {GUIDE_BODY_BYTES:,}"
            )
        self.name = name
        self.connections = connections
        self.closed = False
        self._options = Options().with_(**options)
        self._upload_to = upload_to
        self._transport = transport or _sagemaker(
            name, region, session, endpoint_url, connections, self._options.timeout_seconds
        )
        self._retries = Retries(Backoff(attempts=attempts), sleep)
        self._calls = Calls(self._transport, self._retries, largest_body_bytes=largest_body_bytes)
        self._batches = Batches(name, connections)

    @classmethod
    def local(cls, url: str, **told: Any) -> Self:
        """A container at an address, as `servable serve` prints it: no AWS in between."""
        from servable_client.container_http import ContainerHttp

        connections = told.setdefault("connections", CONNECTIONS)
        return cls(url, transport=ContainerHttp(url, connections=connections), **told)

    def predict(
        self,
        inputs: Any = None,
        /,
        *,
        split: "Split | int | Literal['measured'] | None" = None,
        progress: Told | None = None,
        inference_id: str | None = None,
        format: Any = None,
        timeout_seconds: float | None = None,
        retry_unsafe: bool | None = None,
        variant: str | None = None,
        model: str | None = None,
        version: int | None = None,
        signature: str | None = None,
        target_model: str | None = None,
        **named: Any,
    ) -> Outputs:
        """The outputs of named inputs, of a mapping of them, or of a model's only one.

        `split`: cut a batch into parts that are asked for side by side. `timeout_seconds` is
        for the whole call; where it is not given, each part has the endpoint's.
        Raises `PredictionError`.
        """
        told: dict[str, Any] = {
            "format": format,
            "timeout_seconds": timeout_seconds,
            "retry_unsafe": retry_unsafe,
            "variant": variant,
            "model": model,
            "version": version,
            "signature": signature,
            "target_model": target_model,
        }
        self.check_open()
        options = self._options
        if any(value is not None for value in told.values()):
            options = options.with_(**told)
        arrays = as_arrays(inputs, named)
        # Of the whole batch: a small part in JSON would have other types than the others.
        form = options.format or chosen(arrays, typed=typed(inputs, named))
        if split is None:
            deadline = Deadline(options.timeout_seconds)
            return self._calls.predict(
                arrays, options, deadline, form=form, inference_id=inference_id
            )
        whole = None if timeout_seconds is None else Deadline(timeout_seconds)

        def predict(part: Part) -> Outputs:
            return self._calls.predict(
                part.arrays,
                options,
                whole or Deadline(options.timeout_seconds),
                form=form,
                inference_id=inference_id,
            )

        return self._batches.predict(arrays, as_split(split), predict, progress)

    def invoke(
        self,
        body: bytes,
        *,
        content_type: str = "application/json",
        accept: str = "*/*",
        inference_id: str | None = None,
        **options: Any,
    ) -> Answer:
        """Bytes in, bytes out: for a body that is ready. Raises `PredictionError`."""
        self.check_open()
        said = self._options.with_(**options)
        ready = Request(
            body=body,
            content_type=content_type,
            accept=accept,
            selection=said.selection,
            inference_id=inference_id,
        )
        return self._calls.send(ready, said, Deadline(said.timeout_seconds))

    def submit(
        self,
        inputs: Any = None,
        /,
        *,
        inference_id: str | None = None,
        upload_to: str | None = None,
        **named: Any,
    ) -> Job:
        """An asynchronous inference: the request into S3, a `Job` back. Raises `PredictionError`."""
        self.check_open()
        options, place = self._options, upload_to or self._upload_to
        if place:  # once for all attempts: what is put again replaces what was put
            place = f"{place.rstrip('/')}/{inference_id or uuid.uuid4()}"
        arrays = as_arrays(inputs, named)
        form = options.format or chosen(arrays, typed=typed(inputs, named))
        ready = request(arrays, form, options, inference_id)
        return self._retries.run(
            lambda seconds: self._transport.submit(ready, seconds=seconds, upload_to=place),
            Deadline(options.timeout_seconds),
            unsafe=options.retry_unsafe,
        )

    def close(self) -> None:
        """Waits for what is under way. Closes in this process, not in others that it was forked into."""
        self.closed = True
        self._batches.close()
        self._transport.close()

    def check_open(self) -> None:
        """Raises `BadInputError` after `close`."""
        if self.closed:
            raise BadInputError(f"{self.name}: this Endpoint is closed; make another")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"an {type(self).__name__} cannot be pickled: its connections are its process's; make "
            f"one in each process, as Endpoint({self.name!r}), or have it inherited by fork"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _sagemaker(name: str, *told: Any) -> Transport:
    # Only here is boto3 needed: who has a local endpoint or a fake one does not wait for it.
    from servable_client.sagemaker_runtime import SageMakerRuntime

    region, session, endpoint_url, connections, timeout_seconds = told
    return SageMakerRuntime(
        name,
        region=region,
        session=session,
        endpoint_url=endpoint_url,
        connections=connections,
        timeout_seconds=timeout_seconds,
    )
