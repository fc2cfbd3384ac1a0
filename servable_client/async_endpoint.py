"""The same in asyncio: each call runs on a thread, since boto3 knows no event loop."""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, Self, TypeVar

from servable_client.arrays import Outputs
from servable_client.endpoint import Endpoint
from servable_client.errors import BadInputError
from servable_client.exchange import Answer
from servable_client.forks import in_each_process
from servable_client.job import Job

Result = TypeVar("Result")


class AsyncEndpoint:
    """`Endpoint`, awaited; as many calls at a time as it has connections.

        async with AsyncEndpoint("ranker-prod") as ranker:
            first, second = await asyncio.gather(ranker.predict(x=a), ranker.predict(x=b))

    A call that is cancelled is no longer waited for; what was sent is not called back.
    """

    def __init__(self, name: str | Endpoint, **told: Any) -> None:
        """`told`: as for `Endpoint`; or give an `Endpoint`, a `FakeEndpoint` too. Raises `BadInputError`."""
        if isinstance(name, Endpoint) and told:
            raise BadInputError(f"{', '.join(told)}: say it to the Endpoint that you give")
        self.endpoint = name if isinstance(name, Endpoint) else Endpoint(name, **told)
        self._closed = False
        in_each_process(self._start)

    def _start(self) -> None:
        self._executor = ThreadPoolExecutor(
            self.endpoint.connections, f"servable {self.endpoint.name}"
        )

    @classmethod
    def local(cls, url: str, **told: Any) -> Self:
        """A container at an address."""
        return cls(Endpoint.local(url, **told))

    async def predict(self, inputs: Any = None, /, **told: Any) -> Outputs:
        """As `Endpoint.predict`; `progress` is told on another thread."""
        return await self._run(self.endpoint.predict, inputs, **told)

    async def invoke(self, body: bytes, **told: Any) -> Answer:
        """As `Endpoint.invoke`."""
        return await self._run(self.endpoint.invoke, body, **told)

    async def submit(self, inputs: Any = None, /, **told: Any) -> Job:
        """As `Endpoint.submit`; wait with `result`."""
        return await self._run(self.endpoint.submit, inputs, **told)

    async def result(self, job: Job, timeout_seconds: float) -> Outputs:
        """As `Job.result`."""
        return await self._run(job.result, timeout_seconds)

    async def close(self) -> None:
        """Waits for what is under way."""
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

    async def _run(self, call: Callable[..., Result], *given: Any, **told: Any) -> Result:
        import asyncio

        if self._closed:
            raise BadInputError(f"{self.endpoint.name}: this AsyncEndpoint is closed; make another")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, functools.partial(call, *given, **told))
