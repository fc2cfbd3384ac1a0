"""A running container does nothing for requests as web pages send them, on any of its ports."""

import socket

import psutil
import pytest

from servable_local.container.launch import EndpointProcess
from tests.servable_local.container.endpoint_calls import RANKER

BODY = (RANKER / "golden/request-rows.json").read_bytes()
FORM = "Content-Type: text/plain"  # what a page may send to any site without asking first
PREDICT = "/v1/models/ranker:predict"


def _port(process: EndpointProcess) -> int:
    return int(process.url.rpartition(":")[2])


def _listening(pid: int) -> list[tuple[str, int]]:
    """Addresses of one process, by port."""
    found = [
        connection
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == "LISTEN"
    ]
    return sorted(
        ((str(one.laddr.ip), int(one.laddr.port)) for one in found), key=lambda one: one[1]
    )


def _rest_port(process: EndpointProcess) -> int:
    """The REST port of the first model server, whose gRPC port is the one below."""
    return _listening(process.parts.model_servers[0])[1][1]


def _sent(port: int, data: bytes) -> bytes:
    """All that comes back until the server closes, or says nothing more for a while."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(data)
        try:
            while piece := connection.recv(65536):
                received += piece
                if b"\r\n\r\n" in received:
                    connection.settimeout(0.3)
        except (TimeoutError, ConnectionResetError):
            pass
    return received


def _post(path: str, *headers: str, body: bytes = BODY, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def _own(port: int) -> str:
    return f"Host: 127.0.0.1:{port}"


def test_a_program_on_this_computer_is_answered(without_code: EndpointProcess) -> None:
    for name in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"]:
        for version in ["1.0", "1.1"]:
            port = _port(without_code)
            lines = (f"Host: {name}:{port}", "Content-Type: application/json")
            assert _status(_sent(port, _post("/invocations", *lines, version=version))) == 200


REFUSED = {
    "another name": (403, ["Host: evil.example:{port}"]),
    "another port": (403, ["Host: 127.0.0.1:1"]),
    "no port": (403, ["Host: 127.0.0.1"]),
    "a trailing dot": (403, ["Host: localhost.:{port}"]),
    "an address in another form": (403, ["Host: 127.1:{port}"]),
    "NGINX's name of its upstream": (403, ["Host: tfs_upstream"]),
    "no Host": (400, []),
    "two Hosts": (400, ["Host: 127.0.0.1:{port}", "Host: evil.example"]),
    "two Hosts, the other first": (400, ["Host: evil.example", "host: 127.0.0.1:{port}"]),
    "an Origin": (403, ["Host: 127.0.0.1:{port}", "Origin: https://evil.example"]),
    "the Origin of a sandboxed page": (403, ["Host: 127.0.0.1:{port}", "ORIGIN: null"]),
    "an Origin without a value": (403, ["Host: 127.0.0.1:{port}", "Origin:"]),
    "our own Origin": (403, ["Host: 127.0.0.1:{port}", "Origin: http://127.0.0.1:{port}"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_page_may_have_sent_is_refused(case: str, without_code: EndpointProcess) -> None:
    for where in ["front", "model server"]:
        for version in ["1.0", "1.1"]:
            front = where == "front"
            port = _port(without_code) if front else _rest_port(without_code)
            status, headers = REFUSED[case]
            lines = [header.format(port=port) for header in headers]
            path = "/invocations" if front else PREDICT
            answer = _sent(
                port, _post(path, "Content-Type: application/json", *lines, version=version)
            )
            assert (_status(answer), b"predictions" in answer) == (status, False), answer
            # What NGINX refuses too has its page.
            assert (b'{"error": "' in answer) or (front and status == 400)
            assert b"Connection: close" in answer


def test_a_target_in_absolute_form_is_refused(without_code: EndpointProcess) -> None:
    for where in ["front", "model server"]:
        front = where == "front"
        port = _port(without_code) if front else _rest_port(without_code)
        path = f"http://127.0.0.1:{port}" + ("/invocations" if front else PREDICT)
        assert (
            _status(_sent(port, _post(path, _own(port), "Content-Type: application/json"))) == 400
        )


def test_a_refused_request_is_answered_in_its_turn_and_the_last(
    without_code: EndpointProcess,
) -> None:
    port = _port(without_code)
    first = _post("/invocations", _own(port), "Content-Type: application/json")
    second = _post("/invocations", _own(port), FORM, "Origin: null")
    answer = _sent(port, first + second + first)
    assert [one[:3] for one in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"403"]

    port = _rest_port(without_code)
    wanted = _post(PREDICT, _own(port), "Content-Type: application/json")
    answer = _sent(port, _post(PREDICT, _own(port), FORM, "Origin: null", body=b"{}") + wanted)
    assert (answer.count(b"HTTP/1.1 "), b"predictions" in answer) == (1, False)


def test_no_answer_permits_another_origin(
    without_code: EndpointProcess, with_code: EndpointProcess
) -> None:
    for name in [
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Private-Network: true",
    ]:
        port = _port(without_code)
        lines = ["OPTIONS /invocations HTTP/1.1", _own(port), "Origin: https://evil.example", name]
        answer = _sent(port, "\r\n".join(lines).encode() + b"\r\n\r\n")
        assert (_status(answer), b"access-control" in answer.lower()) == (403, False)

    port = _port(with_code)
    lines = ["GET /invocations HTTP/1.1", _own(port), "Connection: Upgrade", "Upgrade: websocket"]
    lines += ["Origin: https://evil.example", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    assert _status(_sent(port, "\r\n".join(lines).encode() + b"\r\n\r\n")) in (400, 403)

    port = _port(with_code)
    answer = _sent(port, _post("/invocations", _own(port), "Content-Type: application/json"))
    assert (_status(answer), b"access-control" in answer.lower()) == (200, False)


def test_every_port_of_a_container_is_on_127_0_0_1(with_code: EndpointProcess) -> None:
    # gRPC's socket is one of IPv6, on the same address.
    addresses = {address for address, _ in _ports_of_all_processes(with_code)}
    assert addresses == {"127.0.0.1", "::ffff:127.0.0.1"}


def test_no_port_of_a_container_predicts_for_a_page(without_code: EndpointProcess) -> None:
    """The nginx stand-in, REST and gRPC, which speaks HTTP/2 without TLS alone: no browser does."""
    ports = [port for _, port in _ports_of_all_processes(without_code)]
    assert len(ports) == 3
    for port in ports:
        for path in ("/invocations", PREDICT, "/tensorflow.serving.PredictionService/Predict"):
            for kind in ("text/plain", "application/json", "application/grpc"):
                lines = (_own(port), f"Content-Type: {kind}", "Origin: https://evil.example")
                answer = _sent(port, _post(path, *lines))
                assert b"predictions" not in answer
                assert not answer.startswith(b"HTTP/1.1 2")


def _ports_of_all_processes(process: EndpointProcess) -> list[tuple[str, int]]:
    supervisor = psutil.Process(process.pid)
    return [
        address
        for one in [supervisor, *supervisor.children(recursive=True)]
        for address in _listening(one.pid)
    ]
