"""A running container does nothing for requests as web pages send them, on any of its ports."""

import socket

import psutil
import pytest

from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

BODY = b'{"instances": [[1.0, 2.0]]}'
JSON = "Content-Type: application/json"
FORM = "Content-Type: text/plain"  # what a page may send to any site without asking first
PREDICT = "/v1/models/numbers:predict"


def _port(double: Double) -> int:
    return int(double.url.rpartition(":")[2])


def _listening(pid: int) -> list[tuple[str, int]]:
    """Addresses of one process, by port."""
    connections = psutil.Process(pid).net_connections("inet")
    found = [one.laddr for one in connections if one.status == "LISTEN"]
    return sorted(((str(one.ip), int(one.port)) for one in found), key=lambda one: one[1])


def _front_and_model_server(double: Double) -> dict[str, tuple[int, str]]:
    """Port and path of a prediction; the first model server's gRPC port is the one below REST's."""
    rest_port = _listening(double.process.parts.model_servers[0])[1][1]
    return {"front": (_port(double), "/invocations"), "model server": (rest_port, PREDICT)}


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


def test_a_program_on_this_computer_is_answered(plain_double: Double) -> None:
    port = _port(plain_double)
    for name in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"]:
        for version in ["1.0", "1.1"]:
            sent = _post("/invocations", f"Host: {name}:{port}", JSON, version=version)
            assert _status(_sent(port, sent)) == 200


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


def test_what_a_page_may_have_sent_is_refused(plain_double: Double) -> None:
    for where, (port, path) in _front_and_model_server(plain_double).items():
        for case, (status, headers) in REFUSED.items():
            for version in ["1.0", "1.1"]:
                lines = [header.format(port=port) for header in headers]
                answer = _sent(port, _post(path, JSON, *lines, version=version))
                found = (case, _status(answer), b"predictions" in answer)
                assert found == (case, status, False), answer
                # What NGINX refuses too has its page.
                assert b'{"error": "' in answer or (where, status) == ("front", 400)
                assert b"Connection: close" in answer
        target = f"http://127.0.0.1:{port}{path}"  # in absolute form
        assert _status(_sent(port, _post(target, _own(port), JSON))) == 400


def test_a_refused_request_is_answered_in_its_turn_and_the_last(plain_double: Double) -> None:
    for port, path in _front_and_model_server(plain_double).values():
        wanted = _post(path, _own(port), JSON)
        forged = _post(path, _own(port), FORM, "Origin: null")
        answer = _sent(port, wanted + forged + wanted)
        assert [one[:3] for one in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"403"]


def test_no_answer_permits_another_origin(plain_double: Double, coded_double: Double) -> None:
    port = _port(plain_double)
    for name in ["Method: POST", "Private-Network: true"]:
        lines = ["OPTIONS /invocations HTTP/1.1", _own(port), "Origin: https://evil.example"]
        lines.append(f"Access-Control-Request-{name}")
        answer = _sent(port, "\r\n".join(lines).encode() + b"\r\n\r\n")
        assert (_status(answer), b"access-control" in answer.lower()) == (403, False)
    port = _port(coded_double)
    lines = ["GET /invocations HTTP/1.1", _own(port), "Connection: Upgrade", "Upgrade: websocket"]
    lines += ["Origin: https://evil.example", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    assert _status(_sent(port, "\r\n".join(lines).encode() + b"\r\n\r\n")) in (400, 403)
    answer = _sent(port, _post("/invocations", _own(port), JSON))
    assert (_status(answer), b"access-control" in answer.lower()) == (200, False)


def _ports_of_all_processes(double: Double) -> list[tuple[str, int]]:
    supervisor = psutil.Process(double.process.pid)
    every = [supervisor, *supervisor.children(recursive=True)]
    return [address for one in every for address in _listening(one.pid)]


def test_every_port_of_a_container_is_on_127_0_0_1(
    plain_double: Double, coded_double: Double
) -> None:
    for double in (plain_double, coded_double):
        # gRPC's socket is one of IPv6, on the same address.
        addresses = {address for address, _ in _ports_of_all_processes(double)}
        assert addresses == {"127.0.0.1", "::ffff:127.0.0.1"}


def test_no_port_of_a_container_predicts_for_a_page(plain_double: Double) -> None:
    """The nginx stand-in, REST and gRPC, which speaks HTTP/2 without TLS alone: no browser does."""
    ports = [port for _, port in _ports_of_all_processes(plain_double)]
    assert len(ports) == 3
    for port in ports:
        for path in ("/invocations", PREDICT, "/tensorflow.serving.PredictionService/Predict"):
            for kind in ("text/plain", "application/json", "application/grpc"):
                lines = (_own(port), f"Content-Type: {kind}", "Origin: https://evil.example")
                answer = _sent(port, _post(path, *lines))
                assert b"predictions" not in answer
                assert not answer.startswith(b"HTTP/1.1 2")
