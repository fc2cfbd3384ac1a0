"""A container whose model takes a time per row on so many cores; nothing is computed.

    python -m benchmarks.seeds.simulated_cores CORES ROW_MS

Prints its address. Takes and returns application/x-npy: the sum of each row.
"""

import io
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


def main() -> None:
    # Ctrl-C is for all of the terminal's processes; whoever started this one says so.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    cores, row_seconds = threading.Semaphore(int(sys.argv[1])), float(sys.argv[2]) / 1000

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        # One segment for the head and the answer.
        wbufsize = -1

        def do_POST(self) -> None:
            rows = np.load(io.BytesIO(self.rfile.read(int(self.headers["Content-Length"]))))
            with cores:
                time.sleep(len(rows) * row_seconds)
            body = io.BytesIO()
            np.save(body, rows.sum(axis=1))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-npy")
            self.send_header("Content-Length", str(len(body.getvalue())))
            self.end_headers()
            self.wfile.write(body.getvalue())

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
