"""transport/http2/frames.py as in a worker: in a process of its own, since patching cannot be taken back."""

import json
import socket
import time

import gevent

from servable_handler.transport.http2.frames import Frames, build_frame
from servable_handler.transport.rest import BrokenOffError, DeadlineError
from tests.servable_handler.raw_server import RawServer


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        time.sleep(0.3)
        connection.sendall(data)


def count(connection: socket.socket) -> None:
    time.sleep(0.2)  # until the sender's buffers are full
    got = 0
    while got < 8_000_000:
        got += len(connection.recv(1 << 16))
    connection.sendall(build_frame(0, 0, 1, b"all"))


def heard(port: int, seconds: float, data: bytes = b"") -> str:
    began = time.monotonic()
    line = Frames(port, began + seconds)
    try:
        line.send(data or build_frame(0, 0, 1, b"x"))
        return line.read_next()[3].decode()
    except (DeadlineError, TimeoutError):
        late = time.monotonic() - began - seconds
        return "too late" if 0 <= late < 0.25 else f"after {late:+.3f} s"
    except (BrokenOffError, OSError):
        return "unreachable"
    finally:
        line.close()


def main() -> None:
    echoing = RawServer(echo).port
    slow, first, second, quick = (
        gevent.spawn(heard, echoing, seconds) for seconds in (20, 0.2, 0.1, 20)
    )
    line = Frames(echoing, time.monotonic() + 20)
    twice = []
    for data in (b"1", b"2"):
        line.send(build_frame(0, 0, 1, data))
        twice.append(line.read_next()[3].decode())
    found = {
        "answers": [slow.get(), quick.get()],
        "later deadline first": [first.get(), second.get()],
        "closed": heard(RawServer(socket.socket.close).port, 20),
        "more than buffers hold": heard(RawServer(count).port, 60, bytes(8_000_000)),
        "never read": heard(RawServer(lambda _: time.sleep(60)).port, 0.3, bytes(8_000_000)),
        "one after the other": twice,
    }
    print(json.dumps(found))
