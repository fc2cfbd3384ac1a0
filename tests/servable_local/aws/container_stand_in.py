"""A stand-in for a container: answers at once what it was started with, as JSON.

Its faults are set from outside: `status`, and `seconds` that an answer takes on the
manual clock, without anybody waiting. `answer`, where it is set, is its whole answer.
With the variable TAKES_SECONDS it answers one request at a time, each after so many seconds.
`MISTAKE`, a caller's own bad request, is answered 400 by every container. With the variable ECHO it
answers what it was sent; EXECUTION_PARAMETERS is what it answers on that path. It answers BARRIER
requests at once and none before; its log has the text of WRITES; the first HANG_UPS have no answer.
"""

import json
import socket
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from servable_local.aws.clock import ManualClock

MISTAKE = b"a caller's mistake"


class StandIn:
    """One container. `status` is what it answers; an archive that starts with BROKEN never starts."""

    def __init__(self, archive: bytes, variables: Mapping[str, str], clock: ManualClock) -> None:
        self.archive = archive
        self.status = int(variables.get("STATUS", "200"))
        self.seconds = 0.0
        self.hangs_up = False
        self.closed = False
        self.answer: bytes | None = None
        self.bodies: list[bytes] = []
        self.hang_ups = int(variables.get("HANG_UPS", "0"))
        together = threading.Barrier(int(variables.get("BARRIER", "1")), timeout=10)
        takes_seconds = float(variables.get("TAKES_SECONDS", "0"))
        one_at_a_time = threading.Lock()
        container = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                container.bodies.append(body)
                if container.hangs_up or container.hang_ups:
                    container.hang_ups = max(0, container.hang_ups - 1)
                    return
                together.wait()
                clock.pause(container.seconds)
                if takes_seconds:
                    with one_at_a_time:
                        time.sleep(takes_seconds)
                status = 400 if body == MISTAKE else container.status
                said = {
                    "path": self.path,
                    "archive": container.archive.decode(errors="replace"),
                    "variables": dict(variables),
                    "headers": dict(self.headers),
                    "body": body.decode("latin-1"),
                }
                answer = json.dumps(said).encode() if status == 200 else b"the model says no"
                if "ECHO" in variables and status == 200:
                    answer = body
                if status == 200 and container.answer is not None:
                    answer = container.answer
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.send_header("X-Amzn-SageMaker-Custom-Attributes", "from=container")
                self.end_headers()
                self.wfile.write(answer)

            def do_GET(self) -> None:
                answer = b"" if self.path == "/ping" else None
                if self.path == "/execution-parameters" and "EXECUTION_PARAMETERS" in variables:
                    answer = variables["EXECUTION_PARAMETERS"].encode()
                self.send_response(404 if answer is None else 200)
                self.end_headers()
                self.wfile.write(answer or b"")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        # Not serve_forever: hundreds of them that look around 100 times a second are a busy core.
        while not self.closed:
            self._server.handle_request()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            socket.create_connection(("127.0.0.1", self._port)).close()  # wakes it
            self._thread.join()
            self._server.server_close()


class Launcher:
    """Starts stand-ins and remembers them."""

    def __init__(self, clock: ManualClock) -> None:
        self.started: list[StandIn] = []
        self.clock = clock

    def __call__(
        self,
        archive: Path | None,
        variables: Mapping[str, str],
        *,
        ready_timeout_seconds: float = 60.0,
        log: Path | None = None,
    ) -> StandIn:
        content = archive.read_bytes() if archive else b"many models"
        if "WRITES" in variables and log is not None:
            log.write_text(variables["WRITES"])
        if content.startswith(b"BROKEN"):
            raise RuntimeError("The container did not answer its ping within 60 s.")
        self.started.append(StandIn(content, variables, self.clock))
        return self.started[-1]

    def serving(self, archive: bytes) -> list[StandIn]:
        return [one for one in self.started if one.archive == archive and not one.closed]
