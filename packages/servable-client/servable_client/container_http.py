"""Requests to a container's /invocations, without SageMaker in between."""

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from servable_client.errors import BadInputError
from servable_client.exchange import Answer, Deadline, Job, Request, read_body
from servable_client.forks import initialize_in_each_process
from servable_client.retries import (
    ATTEMPT,
    build_connection_error,
    build_container_error,
    build_observed_pool,
)

CONNECT_TIMEOUT_SECONDS = 5.0
_POOLS = {
    "http": build_observed_pool(urllib3.HTTPConnectionPool),
    "https": build_observed_pool(urllib3.HTTPSConnectionPool),
}


class ContainerHttp:
    """The transport to a container: unsigned requests, without a proxy.

    `url`: as http://127.0.0.1:8080, or a complete one that ends with /invocations or /invoke.
    """

    def __init__(self, url: str, *, connections: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadInputError(f"{url}: pass the container's URL, such as http://127.0.0.1:8080")
        self._url = url.rstrip("/").removesuffix("/invocations")
        self._address = self._url if self._url.endswith("/invoke") else f"{self._url}/invocations"
        self._connections = connections
        initialize_in_each_process(self)

    def _initialize_process_state(self) -> None:
        self._pool = urllib3.PoolManager(maxsize=self._connections, retries=False)
        self._pool.pool_classes_by_scheme = _POOLS

    def send(self, request: Request, *, seconds: float) -> Answer:
        headers = {"Content-Type": request.content_type, "Accept": request.accept}
        if request.selection.variant or request.selection.target_model:
            raise BadInputError("a container doesn't support variant and target_model; omit them")
        if attributes := request.custom_attributes:
            headers["X-Amzn-SageMaker-Custom-Attributes"] = attributes
        if request.inference_id:
            headers["X-Amzn-SageMaker-Inference-Id"] = request.inference_id
        timeout = urllib3.Timeout(connect=min(seconds, CONNECT_TIMEOUT_SECONDS), total=seconds)
        deadline = Deadline(seconds)
        ATTEMPT.written = False
        try:
            answer = self._pool.request(
                "POST",
                self._address,
                body=request.body,
                headers=headers,
                timeout=timeout,
                redirect=False,
                preload_content=False,
            )
            body = read_body(answer, answer.headers, deadline, framed=answer.status == 200)
        except HTTPError as error:
            late, hint = isinstance(error, ReadTimeoutError), "; check that the container runs"
            raise build_connection_error(
                self._url, error, seconds, timed_out=late, hint=hint
            ) from None
        if answer.status != 200:
            words, retry_after = body.decode(errors="replace"), answer.headers.get("Retry-After")
            raise build_container_error(self._url, answer.status, words, retry_after)
        return Answer(body=body, content_type=answer.headers.get("Content-Type", ""))

    def submit(self, request: Request, *, seconds: float, upload_to: str | None) -> Job:
        problem = "a container supports only synchronous requests"
        raise BadInputError(f"{problem}; submit() needs an asynchronous endpoint")

    def close(self) -> None:
        self._pool.clear()
