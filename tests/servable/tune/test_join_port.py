"""Nothing joins a load test by HTTP, as a web page would have to."""

import pickle
import socket
import subprocess
import sys

import pytest
import zmq

from tests.checkouts import ROOT

# Locust's message ("client_ready", "x", "page"), as msgpack.
JOIN = b"\x93\xacclient_ready\xa1x\xa4page"


@pytest.mark.long
def test_a_load_worker_joins_and_a_post_in_zeromqs_old_form_does_not() -> None:
    command = [sys.executable, "-m", "servable.load.generator", "master", "127.0.0.1", "0", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = pickle.load(process.stdout)
        try:
            check_who_joins(port)
        finally:
            process.stdin.close()


def check_who_joins(port: int) -> None:
    start = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\nX: "
    # "P" is 80: a first frame of so many bytes, the sender's name. Then a frame with the message.
    name = start.encode().ljust(81, b"x")
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        connection.sendall(name + bytes([len(JOIN) + 1, 0]) + JOIN)
        try:
            while piece := connection.recv(4096):
                received += piece
        except (TimeoutError, ConnectionResetError):
            pass
    assert b"ack" not in received
    with zmq.Context() as context, context.socket(zmq.DEALER) as worker:
        worker.linger = 0
        worker.setsockopt(zmq.IDENTITY, b"worker")
        worker.connect(f"tcp://127.0.0.1:{port}")
        worker.send(JOIN)
        assert worker.poll(30_000)
        assert b"ack" in worker.recv()
