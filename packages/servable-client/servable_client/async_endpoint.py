"""`Endpoint` for asyncio: each call runs on a thread, since boto3 does not support event loops."""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, Self, TypeVar

from servable_client.arrays import Outputs
from servable_client.endpoint import Endpoint
from servable_client.errors import BadInputError
from servable_client.exchange import Answer, Job
from servable_client.forks import in_each_process

Result = TypeVar("Result")


class AsyncEndpoint:
    """`Endpoint`, awaited; as many calls at a time as it has connections.

        async with AsyncEndpoint("ranker-prod") as ranker:
            first, second = await asyncio.gather(ranker.predict(x=a), ranker.predict(x=b))

    A cancelled call is no longer awaited; a request that was sent is not revoked.
    """

    def __init__(self, name: str | Endpoint, **options: Any) -> None:
        """`options`: as for `Endpoint`; or `name` is an `Endpoint`, a `FakeEndpoint` too.

        Raises `BadInputError`.
        """
        if isinstance(name, Endpoint) and options:
            raise BadInputError(f"{', '.join(options)}: give these options to the Endpoint itself")
        self.endpoint = name if isinstance(name, Endpoint) else Endpoint(name, **options)
        self._closed = False
        in_each_process(self)

    def _start(self) -> None:
        endpoint = self.endpoint
        self._executor = ThreadPoolExecutor(endpoint.connections, f"servable {endpoint.name}")

    @classmethod
    def local(cls, url: str, **options: Any) -> Self:
        """Return an endpoint for a container at an address."""
        return cls(Endpoint.local(url, **options))

    async def predict(self, inputs: Any = None, /, **options: Any) -> Outputs:
        """As `Endpoint.predict`; `progress` is called on another thread."""
        return await self._run(self.endpoint.predict, inputs, **options)

    async def invoke(self, body: bytes, **options: Any) -> Answer:
        """As `Endpoint.invoke`."""
        return await self._run(self.endpoint.invoke, body, **options)

    async def submit(self, inputs: Any = None, /, **options: Any) -> Job:
        """As `Endpoint.submit`; wait with `result`."""
        return await self._run(self.endpoint.submit, inputs, **options)

    async def result(self, job: Job, timeout_seconds: float) -> Outputs:
        """As `Job.result`."""
        return await self._run(job.result, timeout_seconds)

    async def close(self) -> None:
        """Wait for the running calls, then close the connections."""
        import asyncio  # here alone: half of what `import servable_client` would take beside NumPy

        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)
        await asyncio.to_thread(self.endpoint.close)

    def __reduce__(self) -> NoReturn:
        self.endpoint.__reduce__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    async def _run(self, call: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
        import asyncio

        if self._closed:
            raise BadInputError(f"{self.endpoint.name}: this AsyncEndpoint is closed; make another")
        loop = asyncio.get_running_loop()
        bound = functools.partial(call, *arguments, **options)
        return await loop.run_in_executor(self._executor, bound)
