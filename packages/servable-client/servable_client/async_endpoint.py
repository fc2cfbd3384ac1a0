"""`Endpoint` for asyncio: calls run in threads, because boto3 doesn't support event loops."""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, Self, TypeVar

from servable_client.arrays import Outputs
from servable_client.endpoint import Endpoint
from servable_client.errors import BadInputError
from servable_client.exchange import Answer, Job
from servable_client.forks import initialize_in_each_process

Result = TypeVar("Result")


class AsyncEndpoint:
    """The `Endpoint` for asyncio; it runs as many calls at a time as it has connections.

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
            raise BadInputError(
                f"{self.endpoint.name}: this AsyncEndpoint is closed; create a new one"
            )
        loop = asyncio.get_running_loop()
        bound = functools.partial(call, *arguments, **options)
        return await loop.run_in_executor(self._executor, bound)
