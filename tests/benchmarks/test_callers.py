"""The callers that every benchmark asks with: what they send, and answers as they come."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from benchmarks.callers import EndpointCaller, load
from benchmarks.frame import in_turn

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
Serving = Callable[..., tuple[str, list[bytes]]]


@pytest.fixture
def serving() -> Iterator[Serving]:
    """A server that answers each request with these pieces, and its requests; without pieces it closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []

    def answer(pieces: tuple[bytes, ...]) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection, pieces), daemon=True).start()

    def talk(connection: socket.socket, pieces: tuple[bytes, ...]) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while request := connection.recv(65536):
                requests.append(request)
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(0.01)  # so that each is a packet of its own
                if not pieces:
                    return

    def start(*pieces: bytes) -> tuple[str, list[bytes]]:
        threading.Thread(target=answer, args=(pieces,), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}", requests

    yield start
    listener.close()


def test_an_answer_that_comes_in_pieces_is_read_whole(serving: Serving) -> None:
    url, _ = serving(HEAD[:20], HEAD[20:] + b"ab", b"cd")
    assert EndpointCaller(url).ask(b"", "text/csv") == b"abcd"


def test_a_request_names_method_path_and_attributes(serving: Serving) -> None:
    url, requests = serving(HEAD + b"abcd")
    EndpointCaller(url).ask(b"{}", "text/csv", "counts", path="/models/a", method="DELETE")
    head = requests[0].decode()
    assert head.startswith("DELETE /models/a HTTP/1.1\r\n")
    assert "X-Amzn-SageMaker-Custom-Attributes: counts\r\n" in head


def test_a_connection_that_ends_early_is_an_error(serving: Serving) -> None:
    url, _ = serving()
    with pytest.raises(ConnectionError):
        EndpointCaller(url).ask(b"", "text/csv")


def test_a_refusal_is_an_error_with_its_status(serving: Serving) -> None:
    url, _ = serving(HEAD.replace(b"200 OK", b"503 No") + b"abcd")
    with pytest.raises(OSError, match="503 b'abcd'"):
        EndpointCaller(url).ask(b"", "text/csv")


def test_a_load_counts_what_failed(serving: Serving) -> None:
    url, _ = serving(HEAD.replace(b"200 OK", b"503 No") + b"abcd")
    found = load(url, b"", callers=2, seconds=0.2, content_type="text/csv")
    assert (found.failed, found.requests > 0) == (found.requests, True)


def test_each_repeat_starts_with_another_way() -> None:
    assert [way for _, way in in_turn("abc", 3)] == [*"abc", *"bca", *"cab"]
