"""Planted deviations: a proxy before a container which changes one thing of what it answers.

Each changes a response that a caller could see; the comparison or the contract has to see it too.
"""

import asyncio
import gzip
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"
_REAL = re.compile(rb"(?<![0-9])-?[0-9]+\.[0-9]+")
_REASONS = {200: "OK", 400: "Bad Request", 413: "Too Large", 500: "Error", 502: "Bad Gateway"}


@dataclass
class Exchange:
    """A request and its answer; names of headers are in lower case."""

    method: str
    path: str
    sent: dict[str, str]
    request: bytes = b""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    number: int = 0
    wait_seconds: float = 0.0
    declared: int | None = None
    """Content-Length, where it is not the body's; the connection is closed after the answer."""

    def answer(self, status: int, text: str = '{"error": "no"}') -> None:
        self.status, self.body = status, text.encode()
        self.headers["content-type"] = "application/json"

    @property
    def is_json(self) -> bool:
        return self.headers.get("content-type") == "application/json"


Change = Callable[[Exchange], None]


@dataclass(frozen=True)
class Deviation:
    """One planted fault. `request` changes what the container gets, `answer` what it answers."""

    answer: Change | None = None
    request: Change | None = None
    idle_seconds: float | None = None
    """Close a connection that is idle for as long; 0: never."""
    continues: bool = True
    in_turn: bool = False
    """Answer one request after another."""


def _ignore(name: str, part: str = "") -> Change:
    def change(exchange: Exchange) -> None:
        if not part:
            exchange.sent.pop(name, None)
        elif name in exchange.sent:
            attributes = exchange.sent[name].split(",")
            kept = [each for each in attributes if not each.strip().startswith(part)]
            exchange.sent[name] = ",".join(kept)
            if not kept:
                del exchange.sent[name]

    return change


def _status(old: int, new: int) -> Change:
    def change(exchange: Exchange) -> None:
        if exchange.status == old:
            exchange.status = new

    return change


def _above(size: int, status: int, of: str = "request") -> Change:
    def change(exchange: Exchange) -> None:
        if len(getattr(exchange, of)) > size:
            exchange.answer(status)

    return change


def _body(change_body: Callable[[bytes], bytes], *, least: int = 0, errors: bool = False) -> Change:
    """Change the bodies of successes, or those of errors, of at least so many bytes."""

    def change(exchange: Exchange) -> None:
        if exchange.is_json and (exchange.status >= 400) == errors and len(exchange.body) >= least:
            exchange.body = change_body(exchange.body)

    return change


def _json(change_value: Callable[[dict[str, object]], object]) -> Change:
    """Change `predictions` or `outputs`, and write them as before where nothing was changed."""

    def change(body: bytes) -> bytes:
        with suppress(ValueError):
            value = json.loads(body)
            if isinstance(value, dict):
                before = json.dumps(value)
                after = json.dumps(change_value(value))
                return body if before == after else after.encode()
        return body

    return _body(change)


def _reversed_rows(value: dict[str, object]) -> object:
    rows = value.get("predictions")
    return value | ({"predictions": rows[::-1]} if isinstance(rows, list) else {})


def _without_last_row(value: dict[str, object]) -> object:
    rows = value.get("predictions")
    many = isinstance(rows, list) and len(rows) > 2
    return value | ({"predictions": rows[:-1]} if isinstance(rows, list) and many else {})


def _numbers(written: Callable[[float], str]) -> Change:
    return _body(lambda body: _REAL.sub(lambda found: written(float(found[0])).encode(), body))


def _header(name: str, value: str | None) -> Change:
    def change(exchange: Exchange) -> None:
        exchange.headers.pop(name, None)
        if value is not None:
            exchange.headers[name] = value

    return change


def _gzip(exchange: Exchange) -> None:
    if "gzip" in exchange.sent.get("accept-encoding", "") and exchange.body:
        exchange.body = gzip.compress(exchange.body)
        exchange.headers["content-encoding"] = "gzip"


def _every(count: int, change: Change) -> Change:
    return lambda exchange: None if exchange.number % count else change(exchange)


def _at(path: str, change: Change) -> Change:
    return lambda exchange: change(exchange) if exchange.path == path else None


def _cut(exchange: Exchange) -> None:
    if exchange.status == 200 and len(exchange.body) > 30:
        exchange.declared, exchange.body = len(exchange.body), exchange.body[:-7]


def _late(seconds: float) -> Change:
    def change(exchange: Exchange) -> None:
        exchange.wait_seconds = seconds

    return change


def _slow_is_504(exchange: Exchange) -> None:
    if "slow" in exchange.sent.get(ATTRIBUTES, ""):  # as if the answer were waited for less long
        exchange.answer(504)


def _lost_chunk(exchange: Exchange) -> None:
    if "transfer-encoding" in exchange.sent:
        exchange.request = exchange.request[:10]


def _cached(answers: dict[str, tuple[int, bytes]]) -> Change:
    """Answer from a cache, where a body begins as an earlier one."""

    def change(exchange: Exchange) -> None:
        if exchange.method == "POST" and exchange.status == 200:
            key = exchange.path + exchange.sent.get("content-type", "") + str(exchange.request[:17])
            exchange.status, exchange.body = answers.setdefault(
                key, (exchange.status, exchange.body)
            )

    return change


DEVIATIONS: dict[str, Deviation] = {
    "version 2 answers for version 1": Deviation(request=_ignore(ATTRIBUTES, "tfs-model-version")),
    "the model's name is ignored": Deviation(request=_ignore(ATTRIBUTES, "tfs-model-name")),
    "the method is ignored": Deviation(request=_ignore(ATTRIBUTES, "tfs-method")),
    "Accept is ignored": Deviation(request=_ignore("accept")),
    "the content type is ignored": Deviation(request=_ignore("content-type")),
    "a body of 20 KB is 500": Deviation(_above(16_384, 500)),
    "a body of 64 KB is 500": Deviation(_above(60_000, 500)),
    "a body of 7 MB is 413": Deviation(_above(6 << 20, 413)),
    "an answer of 1 MB is 500": Deviation(_above(1 << 20, 500, "body")),
    "an answer of 6 MB loses its end": Deviation(
        _body(lambda body: body[:5_000_000], least=5_900_000)
    ),
    "404 is 400": Deviation(_status(404, 400)),
    "415 is 400": Deviation(_status(415, 400)),
    "502 is 500": Deviation(_status(502, 500)),
    "400 is 200": Deviation(_status(400, 200)),
    "the content type has a charset": Deviation(
        _header("content-type", "application/json; charset=utf-8")
    ),
    "there is no content type": Deviation(_header("content-type", None)),
    "a line break more": Deviation(_body(lambda body: body + b"\n")),
    "JSON without line breaks": Deviation(_body(lambda body: body.replace(b"\n", b""))),
    "JSON with other line breaks": Deviation(_body(lambda body: body.replace(b"\n", b"\r\n"))),
    "rows in another order": Deviation(_json(_reversed_rows)),
    "the third row is missing": Deviation(_json(_without_last_row)),
    "keys in another order": Deviation(_json(lambda value: dict(reversed(value.items())))),
    "predictions is called outputs": Deviation(
        _body(lambda body: body.replace(b'"predictions"', b'"outputs"'))
    ),
    "whole numbers without a fraction": Deviation(
        _numbers(lambda number: f"{number:.0f}" if number == int(number) else repr(number))
    ),
    "numbers of six decimals": Deviation(_numbers(lambda number: f"{number:.6f}")),
    "numbers of six digits": Deviation(_numbers(lambda number: repr(float(f"{number:.6g}")))),
    "numbers with an exponent": Deviation(_numbers(lambda number: f"{number:.9e}")),
    "numbers a ten-thousandth larger": Deviation(_numbers(lambda number: repr(number * 1.0001))),
    "numbers a millionth larger": Deviation(_numbers(lambda number: repr(number * 1.000001))),
    "errors without a body": Deviation(_body(lambda body: b"", errors=True)),
    "errors in other words": Deviation(
        _body(lambda body: b'{"error": "Bad Request"}', errors=True)
    ),
    "errors in HTML": Deviation(_body(lambda body: b"<html>error</html>", errors=True)),
    "the last byte is missing": Deviation(_body(lambda body: body[:-1])),
    "the connection ends inside a body": Deviation(_cut),
    "every 200th answer is 500": Deviation(_every(200, lambda one: one.answer(500))),
    "answers from a cache": Deviation(_cached({})),
    "answers are compressed": Deviation(_gzip),
    "each answer closes its connection": Deviation(_header("connection", "close")),
    "an idle connection is closed after 1 s": Deviation(idle_seconds=1.0),
    "an idle connection stays": Deviation(idle_seconds=0),
    "a slow model is 504": Deviation(_slow_is_504),
    "one request after another": Deviation(in_turn=True),
    "/ping takes 2.5 s": Deviation(_at("/ping", _late(2.5))),
    "another path is 200": Deviation(_at("/metrics", lambda one: one.answer(200))),
    "the last chunks are lost": Deviation(request=_lost_chunk),
    "nobody is told to continue": Deviation(continues=False),
}


class _Server:
    """One proxy: each connection of a caller has one to the container."""

    def __init__(self, host: str, port: int, deviation: Deviation) -> None:
        self._upstream = host, port
        self._deviation = deviation
        self._numbers = itertools.count(1)
        self._turn = asyncio.Lock()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, asyncio.CancelledError):
            await self._connection(reader, writer)
        writer.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        try:
            idle = self._deviation.idle_seconds
            while True:
                head = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
                ended = asyncio.create_task(up_reader.read(1))
                either = {head} if idle == 0 else {head, ended}
                await asyncio.wait(
                    either, timeout=idle or None, return_when=asyncio.FIRST_COMPLETED
                )
                if not head.done():
                    head.cancel()
                    ended.cancel()
                    await asyncio.gather(head, ended, return_exceptions=True)
                    return
                if idle == 0 and ended.done():  # the container closed its side
                    up_reader, up_writer = await asyncio.open_connection(*self._upstream)
                    ended = asyncio.create_task(up_reader.read(1))
                try:
                    text = await head
                except asyncio.IncompleteReadError:
                    ended.cancel()
                    await asyncio.gather(ended, return_exceptions=True)
                    return
                up = up_reader, up_writer, ended
                if not await self._exchange(text, (reader, writer), up):
                    return
        finally:
            up_writer.close()

    async def _exchange(
        self,
        head: bytes,
        caller: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        up: tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Task[bytes]],
    ) -> bool:
        """Pass a request and its answer on. Return whether the connection goes on."""
        (reader, writer), (up_reader, up_writer, first) = caller, up
        line, _, rest = head.partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1"):
            up_writer.write(head)
            writer.write(await first + await up_reader.read())
            await writer.drain()
            return False
        sent = _headers(rest)
        if "host" in sent:
            sent["host"] = "{}:{}".format(*self._upstream)  # a local container answers no other
        exchange = Exchange(words[0], words[1], sent, number=next(self._numbers))
        expected = sent.pop("expect", None)
        if expected and self._deviation.continues:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        exchange.request = await _read_body(reader, sent)
        if self._deviation.request is not None:
            self._deviation.request(exchange)
        if sent.pop("transfer-encoding", None) or exchange.request:
            sent["content-length"] = str(len(exchange.request))
        if self._deviation.in_turn:
            await self._turn.acquire()
        try:
            up_writer.write(_written(line, sent) + exchange.request)
            answer_head = await first + await up_reader.readuntil(b"\r\n\r\n")
            status_line, _, rest = answer_head.partition(b"\r\n")
            exchange.status = int(status_line.split(b" ")[1])
            exchange.headers = _headers(rest)
            if exchange.method != "HEAD":
                exchange.body = await _read_body(up_reader, exchange.headers)
        finally:
            if self._deviation.in_turn:
                self._turn.release()
        length = exchange.headers.pop("content-length", None)
        exchange.headers.pop("transfer-encoding", None)
        if self._deviation.answer is not None:
            self._deviation.answer(exchange)
        await asyncio.sleep(exchange.wait_seconds)
        if exchange.method != "HEAD":
            length = str(len(exchange.body) if exchange.declared is None else exchange.declared)
        if length is not None:
            exchange.headers["content-length"] = length
        reason = _REASONS.get(exchange.status, "Other")
        status_line = f"HTTP/1.1 {exchange.status} {reason}".encode()
        writer.write(_written(status_line, exchange.headers) + exchange.body)
        await writer.drain()
        return exchange.declared is None and exchange.headers.get("connection") != "close"


def _headers(rest: bytes) -> dict[str, str]:
    lines = rest.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _written(line: bytes, headers: dict[str, str]) -> bytes:
    lines = [line.decode("latin-1"), *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        parts = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
        return b"".join(parts)
    return await reader.readexactly(int(headers.get("content-length", 0)))


@contextmanager
def proxy(url: str, deviation: Deviation) -> Iterator[str]:
    """A container at `url` with the deviation. Yields its address."""
    host, _, port = url.removeprefix("http://").partition(":")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def started() -> asyncio.Server:
        return await asyncio.start_server(_Server(host, int(port), deviation), "127.0.0.1", 0)

    async def stopped(server: asyncio.Server) -> None:
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(started(), loop).result()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(stopped(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
