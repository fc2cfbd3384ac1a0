"""A container and SageMaker's runtime API over TCP or TLS, cut off at any point of a request.

What the model executes is counted by the number in the request, x = [number]; y = x * 2 + 1 is
the answer. The sockets are our own, so that a fault is exactly where its name says.
"""

import json
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.servable_client.runtime_server import PROTOBUF, answering, inputs_of

# When a connection is made; the last two with TLS only.
OF_CONNECTIONS = ("reset when accepted", "reset in the handshake", "garbage in the handshake")
# Before the model has run, and after.
BEFORE = ("after the first byte", "within the body", "after the last byte, not executed")
TURNED_AWAY = ("full queue", "throttled", "too large")
AFTER = (
    "after the last byte", "half a status line", "half the headers", "headers only", "half the body",
    "half a chunk", "chunks without an end", "a broken chunk", "neither length nor chunks",
    "a broken length", "no HTTP", "status 500", "status 503", "never answered",
)  # fmt: skip
TLS_AFTER = ("a broken record", "a broken record in the answer", "an alert")
ANSWERED = ("answered", "answered and closed", "answered and closed later")
LATER_SECONDS = 0.01
_USES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
    "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip
_SIGNS_CERTIFICATES = x509.KeyUsage(**{use: use == "key_cert_sign" for use in _USES})


_Key = ec.EllipticCurvePrivateKey


class Certificates(NamedTuple):
    authority: Path
    chain: Path
    untrusted: Path
    """Like `chain`, of an authority that nobody has."""


def certificates(folder: Path) -> Certificates:
    """An authority of our own, and certificates for 127.0.0.1 with their keys, as PEM files.

    They have what RFC 5280 asks for, as Python 3.13 does by default (ssl.VERIFY_X509_STRICT).
    """

    def signed(name: str, issuer: x509.Name, key: _Key, by: _Key) -> bytes:
        now, day = datetime.now(UTC).replace(tzinfo=None), timedelta(days=1)
        serial, public = x509.random_serial_number(), key.public_key()
        builder = x509.CertificateBuilder(issuer, _name(name), public, serial, now - day, now + day)
        address = x509.IPAddress(ip_address("127.0.0.1"))
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=by is key, path_length=None), True),
            (x509.SubjectKeyIdentifier.from_public_key(public), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), False),
            (_SIGNS_CERTIFICATES, True)
            if by is key
            else (x509.SubjectAlternativeName([address]), False),
        ]
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def pair(name: str) -> tuple[bytes, bytes]:
        authority, leaf = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        root = signed(name, _name(name), authority, authority)
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        private = leaf.private_bytes(pem, form, serialization.NoEncryption())
        return root, private + signed("127.0.0.1", _name(name), leaf, authority)

    root, chain = pair("authority")
    files = Certificates(folder / "authority.pem", folder / "chain.pem", folder / "untrusted.pem")
    contents = root, chain, pair("another")[1]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return files


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class FaultyServer:
    """`draw(of)` says what happens to a "connection" or a "request", by the names above."""

    def __init__(self, draw: Callable[[str], str], chain: Path | None = None) -> None:
        self.draw = draw
        self.executed: Counter[int] = Counter()
        self.requests = 0
        """The requests that were read whole."""
        self.connections = 0
        self._context: ssl.SSLContext | None = None
        if chain:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(chain)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        scheme = "https" if chain else "http"
        self.url = f"{scheme}://127.0.0.1:{self._listening.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Returns when nothing more is executed."""
        self._closing.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join(20)
        for thread in list(self._threads):
            thread.join(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                self.connections += 1
                self._threads.add(thread)
            thread.start()

    def _serve(self, plain: socket.socket) -> None:
        connection = plain
        try:
            plain.settimeout(0.2)
            with self._lock:
                fault = self.draw("connection")
            if fault == "reset when accepted":
                return
            if self._context:
                if fault == "reset in the handshake":
                    plain.recv(10)
                    return
                if fault == "garbage in the handshake":
                    plain.recv(10)
                    plain.sendall(b"HTTP/1.1 400 this is no TLS\r\n\r\n")
                    return
                plain.settimeout(10)
                connection = self._context.wrap_socket(plain, server_side=True)
            connection.settimeout(0.2)
            while self._request(connection):
                pass
        except (OSError, ValueError):
            pass  # the client has gone
        finally:
            _reset(connection)
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _request(self, connection: socket.socket) -> bool:
        """One request and its answer; whether the connection is kept."""
        received = self._more(connection)
        if not received:
            return False
        with self._lock:
            fault = self.draw("request")
        if fault == "after the first byte":
            return False
        while b"\r\n\r\n" not in received:
            received += self._more(connection) or _gone()
        head, _, body = received.partition(b"\r\n\r\n")
        if fault == "within the body":
            return False
        if fault == "too large":
            said = json.dumps({"message": "too large"}).encode()
            headers = b"x-amzn-ErrorType: ValidationError\r\nConnection: close\r\n"
            connection.sendall(_message(413, said, headers))
            while self._more(connection):
                pass  # a reset would take the answer away
            return False
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < length:
            body += self._more(connection) or _gone()
        with self._lock:
            self.requests += 1
        if fault == "after the last byte, not executed":
            return False
        if fault in TURNED_AWAY:
            connection.sendall(_turned_away(fault, invocations=b" /invocations " in head))
            return True
        return self._executed(connection, fault, body)

    def _executed(self, connection: socket.socket, fault: str, body: bytes) -> bool:
        x = inputs_of(body)["x"]
        with self._lock:
            self.executed.update(x.tolist())
        answer = answering({"y": x * 2 + 1}).body
        whole = _message(200, answer, f"Content-Type: {PROTOBUF}\r\n".encode())
        start = whole.index(b"\r\n\r\n") + 4
        length = f"Content-Length: {len(answer)}".encode()
        chunked = whole[:start].replace(length, b"Transfer-Encoding: chunked")
        chunk = b"%x\r\n%s\r\n" % (len(answer), answer)
        sent = {
            "half a status line": whole[:7],
            "half the headers": whole[:30],
            "headers only": whole[:start],
            "half the body": whole[: start + len(answer) // 2],
            "half a chunk": chunked + chunk[: len(chunk) // 2],
            "chunks without an end": chunked + chunk,
            "a broken chunk": chunked + b"zz\r\n" + answer,
            "neither length nor chunks": whole[:start].replace(b"Content-Length", b"X-Length")
            + answer,
            "a broken length": whole.replace(b"Content-Length: ", b"Content-Length: 1x"),
            "no HTTP": b"what is this\r\n\r\n",
            "status 500": _message(500, b"{}", b""),
            "status 503": _message(503, b"{}", b""),
            "a broken record in the answer": whole[: start + len(answer) // 2],
        }.get(fault, b"" if fault not in ANSWERED else whole)
        if fault == "never answered":
            self._closing.wait(3)
            return False
        if sent:
            connection.sendall(sent)
        if fault.startswith("a broken record"):
            _raw(connection, b"\x17\x03\x03\x00\x20" + b"\xaa" * 32)
        if fault == "an alert":
            _raw(connection, b"\x15\x03\x03\x00\x02\x02\x28")
        if fault == "answered and closed later":
            self._closing.wait(LATER_SECONDS)
        if fault in ANSWERED[1:]:
            connection.close()  # in order: a reset may overtake the answer
        return fault in ("answered", "status 500", "status 503")

    def _more(self, connection: socket.socket) -> bytes:
        """Bytes; none at the end of the connection, or when the server is closed."""
        while not self._closing.is_set():
            try:
                return connection.recv(1 << 16)
            except TimeoutError:
                continue
        return b""


def _gone() -> bytes:
    raise ValueError("the client has gone")


def _message(status: int, body: bytes, headers: bytes) -> bytes:
    return b"HTTP/1.1 %d Said\r\n%sContent-Length: %d\r\n\r\n%s" % (
        status, headers, len(body), body,
    )  # fmt: skip


def _turned_away(fault: str, *, invocations: bool) -> bytes:
    """As a container says it, or SageMaker."""
    if invocations:
        return _message(429, b'{"error": "full"}', b"Retry-After: 0\r\n")
    if fault == "throttled":
        return _message(400, b"{}", b"x-amzn-ErrorType: ThrottlingException\r\n")
    said = {"OriginalStatusCode": 429, "OriginalMessage": "full", "Message": "full"}
    return _message(424, json.dumps(said).encode(), b"x-amzn-ErrorType: ModelError\r\n")


def _raw(connection: socket.socket, content: bytes) -> None:
    """Past TLS, onto the wire."""
    with socket.socket(fileno=connection.detach()) as plain:
        plain.sendall(content)
        plain.shutdown(socket.SHUT_WR)
        plain.settimeout(1)
        with suppress(OSError):
            plain.recv(1 << 16)  # until the client has read it: a reset would take it away


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        connection.close()
