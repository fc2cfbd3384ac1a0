"""The NGINX stand-in: `python -m servable_local.container.nginx --parent-pid N --plan JSON`.

It accepts connections of callers: HTTP/1.1, with one request after the other on each.
"""

import asyncio
import json
import sys
import traceback
from collections import Counter
from typing import Any

import uvloop

from servable_local.container.child_process import Events, begin_child, log
from servable_local.container.http_messages import (
    BadRequestError,
    HttpRequest,
    HttpResponse,
    RequestReader,
    build_error,
    encode_response,
)
from servable_local.container.image_code import find_image_code
from servable_local.container.nginx.routes import ModelServersUpstream, Routes, build_error_page
from servable_local.container.ports import open_listener
from servable_local.container.recording import AnswerFunction, CaptureRecorder, Recording

# NGINX's keepalive_timeout in the image.
IDLE_SECONDS = 3.0
# client_header_timeout and client_body_timeout, which the image leaves at their defaults.
_READ_SECONDS = 60.0


class CallerConnection(asyncio.Protocol):
    """A connection of a caller."""

    def __init__(self, answer: AnswerFunction, port: int) -> None:
        """Initialize. `port` is the port of its server."""
        self._answer = answer
        self._reader = RequestReader(port)
        self._transport: Any = None
        self._working: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._start_idle_timer(_READ_SECONDS)

    def connection_lost(self, failure: Exception | None) -> None:
        self._cancel_idle_timer()
        if self._working is not None:
            # As NGINX: stop waiting for a caller that hung up; the upstream notices.
            self._working.cancel()

    def data_received(self, data: bytes) -> None:
        self._cancel_idle_timer()
        try:
            self._reader.feed(data)
        except BadRequestError as problem:
            log(f"{problem.status} {problem.phrase}: {problem}")
            # After the responses to earlier requests.
            self._reader.requests.append((build_error_page(problem.status, problem.phrase), False))
            self._transport.pause_reading()
        if self._reader.wants_continue:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._reader.wants_continue = False
        if self._reader.requests and self._working is None:
            self._working = asyncio.get_running_loop().create_task(self._serve_requests())
        elif self._working is None:
            self._start_idle_timer(_READ_SECONDS)

    async def _serve_requests(self) -> None:
        requests = self._reader.requests
        while requests:
            request, keep_alive = requests.popleft()
            if isinstance(request, HttpResponse):
                self._transport.write(encode_response(request, keep_alive=False))
                self._transport.close()
                return
            try:
                answer = await self._answer(request)
            except Exception as failure:  # ours, and no reason to leave the caller waiting
                traceback.print_exc()
                answer = build_error(500, str(failure))
            head = request.method == "HEAD"
            keep_alive = keep_alive and not answer.closes
            self._transport.write(encode_response(answer, keep_alive=keep_alive, head=head))
            if not keep_alive:
                self._transport.close()
                return
        self._working = None
        self._start_idle_timer(IDLE_SECONDS)

    def _start_idle_timer(self, seconds: float) -> None:
        self._idle = asyncio.get_running_loop().call_later(seconds, self._transport.close)

    def _cancel_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


class CurrentRoutes:
    """The routes of the latest plan. Requests that older routes accepted end on those."""

    def __init__(self, plan: dict[str, Any], events: Events) -> None:
        self._events = events
        self._requests: Counter[str] = Counter()
        self._apply_plan(plan)

    def _apply_plan(self, plan: dict[str, Any]) -> None:
        self._serves: str = plan["serves"]
        self._routes = Routes(
            gunicorn=plan["gunicorn"],
            model_servers=ModelServersUpstream(plan["rest_ports"]),
            default_model=plan["default_model"],
            image=find_image_code(plan["tensorflow"]),
            read_timeout_seconds=plan["read_timeout_seconds"],
        )

    def report(self) -> None:
        """Report the plan that new requests follow, and those that unfinished requests need."""
        in_use = [serves for serves, count in self._requests.items() if count]
        self._events.report(serves=self._serves, in_use=in_use)

    async def respond(self, request: HttpRequest) -> HttpResponse:
        serves = self._serves
        self._requests[serves] += 1
        try:
            return await self._routes.respond(request)
        finally:
            self._requests[serves] -= 1
            if serves != self._serves and not self._requests[serves]:
                self.report()

    async def follow_plans(self) -> None:
        """Apply each plan that arrives as a line on standard input."""
        reader = asyncio.StreamReader(limit=1 << 20)
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            self._apply_plan(json.loads(line))
            self.report()


def main() -> None:
    plan, events = begin_child()
    routes = CurrentRoutes(plan, events)
    answer: AnswerFunction = routes.respond
    if plan["record"]:
        answer = CaptureRecorder(Recording(*plan["record"]), answer).respond
    try:
        listener = open_listener(plan["port"])
    except OSError as error:
        events.report(error=f"port {plan['port']}: {error.strerror}")
        return

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(
            lambda: CallerConnection(answer, plan["port"]), sock=listener, backlog=512
        )
        routes.report()
        await asyncio.gather(server.serve_forever(), routes.follow_plans())

    uvloop.run(serve())


if __name__ == "__main__":
    main()
