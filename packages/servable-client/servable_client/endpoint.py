"""Predictions from one endpoint: in AWS, in the local AWS, or from a container here."""

import functools
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NoReturn, Self, TypeVar

from servable_client.batches import Batches, Report
from servable_client.errors import BadInputError, BodyTooLargeError, PredictionError, RefusedError
from servable_client.exchange import (
    GUIDE_BODY_BYTES,
    MOST_BODY_BYTES,
    Answer,
    Deadline,
    Job,
    Request,
    Transport,
)
from servable_client.forks import initialize_in_each_process
from servable_client.formats import (
    ANY_ANSWER,
    Arrays,
    Outputs,
    as_arrays,
    choose_format,
    decode,
    encode,
    find_content_type,
    has_dtypes,
)
from servable_client.options import Options
from servable_client.retries import ATTEMPTS, Retries
from servable_client.split import Split, as_split

UNSUPPORTED = 415
Trace = Mapping[str, str | None]
"""`inference_id` and `traceparent` of a `Request`."""


def build_request(arrays: Arrays, form: str, options: Options, trace: Trace) -> Request:
    """Return the encoded request. Raises `BadInputError`."""
    # format="json" requests the model server's own JSON, which the handler relays unchanged.
    accept = find_content_type("json") if options.format == "json" else ANY_ANSWER
    return Request(
        body=encode(form, arrays, options),
        content_type=find_content_type(form),
        accept=accept,
        selection=options,
        **trace,
    )


# boto3's own pool; and as many parts as the split of S4's ranking model.
CONNECTIONS = 10


class Endpoint:
    """An endpoint, by name. Thread-safe, also in forked children, which open their own connections.

    `close` it, or use it in a `with`, to close its connections; it cannot be opened again.

        with Endpoint("ranker-prod") as ranker:
            ranker.predict(feat_ids=ids, feat_vals=values)["prob"]

    `options`: format, timeout_seconds, retry_unsafe, variant, model, version, signature,
    target_model, component, for every call; see `servable_client.options`.
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
        attempts: int = ATTEMPTS,
        largest_body_bytes: int = MOST_BODY_BYTES,
        transport: Transport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        wake_seconds: float = 0.0,
        waiting: Callable[[float], None] = lambda seconds: None,
        **options: Any,
    ) -> None:
        """Set up the endpoint without sending a request. Raises `BadInputError`.

        `session`: a boto3 Session. `endpoint_url`: URL of the AWS APIs, as in boto3. `upload_to`:
        where `submit` stores requests, as s3://bucket/prefix/. `largest_body_bytes`: the default
        is the limit in AWS's API reference. AWS's developer guide states 25,000,000 for the same
        endpoints, so the limit may be raised up to that. `wake_seconds`: how long a call waits
        for an endpoint that is scaled to zero, in addition to its timeout. `waiting` is then
        called once, with these seconds. If `wake_seconds` is 0, the call raises `AsleepError`.
        """
        if connections < 1 or attempts < 1:
            raise BadInputError("connections and attempts must be 1 or more")
        if not 1 <= largest_body_bytes <= GUIDE_BODY_BYTES:
            problem = f"largest_body_bytes {largest_body_bytes:,} must be 1 to {GUIDE_BODY_BYTES:,}"
            raise BadInputError(problem)
        self.name = name
        self.connections = connections
        self.closed = False
        self._options = Options().apply_changes(**options)
        self._upload_to = upload_to
        if transport is None:
            # Imported here: local and fake endpoints do not need boto3.
            from servable_client.sagemaker_runtime import SageMakerRuntime

            transport = SageMakerRuntime(
                name,
                region=region,
                session=session,
                endpoint_url=endpoint_url,
                connections=connections,
                timeout_seconds=self._options.timeout_seconds,
            )
        self._transport = transport
        self._largest_body_bytes = largest_body_bytes
        self._retries = Retries(attempts, sleep, wake_seconds, waiting)
        self._batches = Batches(name, connections)
        initialize_in_each_process(self)

    def _initialize_process_state(self) -> None:
        self._json_only = False

    @classmethod
    def local(cls, url: str, **options: Any) -> Self:
        """Return an endpoint for a container at an address, such as `servable serve` prints."""
        from servable_client.container_http import ContainerHttp

        connections = options.setdefault("connections", CONNECTIONS)
        return cls(url, transport=ContainerHttp(url, connections=connections), **options)

    def predict(
        self,
        inputs: Any = None,
        /,
        *,
        split: "Split | int | Literal['measured'] | None" = None,
        progress: Report | None = None,
        inference_id: str | None = None,
        traceparent: str | None = None,
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
        """Return the outputs for named inputs, a mapping of them, or a model's only input.

        `split`: cut a batch into parts that are predicted concurrently. `timeout_seconds` applies
        to the whole call; if it is not given, each part has the endpoint's timeout.
        `traceparent` and `inference_id` are in the handler's log line and in captured data.
        Raises `PredictionError`.
        """
        self._check_open()
        options = self._options.apply_changes(
            format=format,
            timeout_seconds=timeout_seconds,
            retry_unsafe=retry_unsafe,
            variant=variant,
            model=model,
            version=version,
            signature=signature,
            target_model=target_model,
        )
        arrays = as_arrays(inputs, named)
        # For the whole batch: a small part in JSON would have other types.
        form = options.format or choose_format(arrays, typed=has_dtypes(inputs, named))
        trace = {"inference_id": inference_id, "traceparent": traceparent}
        whole = None if timeout_seconds is None else Deadline(timeout_seconds)

        def predict(part: Arrays) -> Outputs:
            deadline = whole or Deadline(options.timeout_seconds)
            return self._predict_arrays(part, options, deadline, form, trace)

        if split is None:
            return predict(arrays)
        return self._batches.predict(arrays, as_split(split), predict, progress)

    def _predict_arrays(
        self, arrays: Arrays, options: Options, deadline: Deadline, form: str, trace: Trace
    ) -> Outputs:
        """Encode, send and decode one prediction. Raises `PredictionError`.

        `form`: the format, unless the options name another or the container accepts only JSON.
        """
        self._check_open()  # another thread can close it before a part is sent
        form = options.format or ("json" if self._json_only else form)
        try:
            answer = self._send(build_request(arrays, form, options, trace), options, deadline)
        except RefusedError as refusal:
            # A container without Servable's handler has read only the content type.
            if refusal.status != UNSUPPORTED or options.format or form == "json":
                raise
            try:
                again = build_request(arrays, "json", options, trace)
                answer = self._send(again, options, deadline)
            except PredictionError as failure:
                failure.attempts += refusal.attempts
                raise
            self._json_only = True
        return Outputs(decode(answer.content_type, answer.body), answer.variant)

    def _send(self, request: Request, options: Options, deadline: Deadline) -> Answer:
        """Send a request. Raises `PredictionError`; `BodyTooLargeError` before anything is sent."""
        if len(request.body) > self._largest_body_bytes:
            raise BodyTooLargeError(
                f"the {request.content_type} body has {len(request.body):,} bytes, but SageMaker "
                f"accepts {self._largest_body_bytes:,}; cut the batch with split=, send another format, "
                "or submit() it to an asynchronous endpoint"
            )
        return self._retries.run(
            lambda seconds: self._transport.send(request, seconds=seconds),
            deadline,
            unsafe=options.retry_unsafe,
        )

    def invoke(
        self,
        body: bytes,
        *,
        content_type: str = "application/json",
        accept: str = "*/*",
        inference_id: str | None = None,
        traceparent: str | None = None,
        **options: Any,
    ) -> Answer:
        """Send an encoded body and return the encoded response. Raises `PredictionError`."""
        self._check_open()
        merged = self._options.apply_changes(**options)
        ready = Request(
            body=body,
            content_type=content_type,
            accept=accept,
            selection=merged,
            inference_id=inference_id,
            traceparent=traceparent,
        )
        return self._send(ready, merged, Deadline(merged.timeout_seconds))

    def submit(
        self,
        inputs: Any = None,
        /,
        *,
        inference_id: str | None = None,
        traceparent: str | None = None,
        upload_to: str | None = None,
        **named: Any,
    ) -> Job:
        """Start an asynchronous inference: store the request in S3 and return a `Job`.

        Raises `PredictionError`.
        """
        self._check_open()
        options, place = self._options, upload_to or self._upload_to
        if place:  # the same for all attempts: a later one replaces the object
            place = f"{place.rstrip('/')}/{inference_id or uuid.uuid4()}"
        arrays = as_arrays(inputs, named)
        form = options.format or choose_format(arrays, typed=has_dtypes(inputs, named))
        trace = {"inference_id": inference_id, "traceparent": traceparent}
        ready = build_request(arrays, form, options, trace)
        return self._retries.run(
            lambda seconds: self._transport.submit(ready, seconds=seconds, upload_to=place),
            Deadline(options.timeout_seconds),
            unsafe=options.retry_unsafe,
        )

    def close(self) -> None:
        """Wait for running calls, then close the connections. Forked processes are not affected."""
        self.closed = True
        self._batches.close()
        self._transport.close()

    def _check_open(self) -> None:
        if self.closed:
            raise BadInputError(f"{self.name}: this Endpoint is closed; create a new one")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"an {type(self).__name__} cannot be pickled: its connections belong to its process; create "
            f"one in each process with Endpoint({self.name!r}), or let forked processes inherit it"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


Result = TypeVar("Result")


class AsyncEndpoint:
    """The `Endpoint` for asyncio; it runs as many calls at a time as it has connections.

    Calls run in threads, because boto3 doesn't support event loops.

        async with AsyncEndpoint("ranker-prod") as ranker:
            first, second = await asyncio.gather(ranker.predict(x=a), ranker.predict(x=b))

    Cancelling a call only stops waiting for it: a request that was sent is not revoked.
    """

    def __init__(self, name: str | Endpoint, **options: Any) -> None:
        """Create an `Endpoint` from its name and options, or wrap the `Endpoint` given as `name`.

        `options`: as for `Endpoint`. `name` may also be a `FakeEndpoint`. Raises `BadInputError`,
        also for options next to an `Endpoint`.
        """
        if isinstance(name, Endpoint) and options:
            raise BadInputError(f"{', '.join(options)}: pass these options to the Endpoint instead")
        self.endpoint = name if isinstance(name, Endpoint) else Endpoint(name, **options)
        self._closed = False
        initialize_in_each_process(self)

    def _initialize_process_state(self) -> None:
        endpoint = self.endpoint
        self._executor = ThreadPoolExecutor(endpoint.connections, f"servable {endpoint.name}")

    @classmethod
    def local(cls, url: str, **options: Any) -> Self:
        """Return an endpoint for a container at an address."""
        return cls(Endpoint.local(url, **options))

    async def predict(self, inputs: Any = None, /, **options: Any) -> Outputs:
        """Return the outputs as `Endpoint.predict` does. `progress` is called in another thread."""
        return await self._run_in_thread(self.endpoint.predict, inputs, **options)

    async def invoke(self, body: bytes, **options: Any) -> Answer:
        """Send an encoded body as `Endpoint.invoke` does, and return the response."""
        return await self._run_in_thread(self.endpoint.invoke, body, **options)

    async def submit(self, inputs: Any = None, /, **options: Any) -> Job:
        """Start an asynchronous inference as `Endpoint.submit` does. Wait for it with `result`."""
        return await self._run_in_thread(self.endpoint.submit, inputs, **options)

    async def result(self, job: Job, timeout_seconds: float) -> Outputs:
        """Wait for a job's outputs and return them, as `Job.result` does."""
        return await self._run_in_thread(job.result, timeout_seconds)

    async def close(self) -> None:
        """Wait for the running calls, then close the connections."""
        import asyncio  # only here: it takes half of the time of `import servable_client` without NumPy

        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)
        await asyncio.to_thread(self.endpoint.close)

    def __reduce__(self) -> NoReturn:
        self.endpoint.__reduce__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    async def _run_in_thread(
        self, call: Callable[..., Result], *arguments: Any, **options: Any
    ) -> Result:
        import asyncio

        if self._closed:
            name = self.endpoint.name
            raise BadInputError(f"{name}: this AsyncEndpoint is closed; create a new one")
        loop = asyncio.get_running_loop()
        bound = functools.partial(call, *arguments, **options)
        return await loop.run_in_executor(self._executor, bound)
