"""Damaged bodies through the handler: `python -m tests.servable_handler.fuzz CONTENT_TYPE COUNT SEED`.

The model server behind it is a fake, in a process of its own. Prints what was answered and
how the memory of this process grew, as JSON; exits otherwise only by dying of a body.
"""

import io
import itertools
import json
import logging
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import falcon

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks
from servable_handler.settings import Settings
from tests.servable_handler.mutation import damaged

CONTEXT = {
    "model_name": None, "model_version": None, "method": None, "channel": None, "timeout": 60,
    "custom_attributes": None,
}  # fmt: skip


def fuzz(content_type: str, count: int, seed: int, ports: tuple[int, int]) -> dict[str, object]:
    grpc_port, rest_port = ports
    variables = {"TFS_GRPC_PORTS": str(grpc_port), "TFS_REST_PORTS": str(rest_port)}
    # JSON both relayed and parsed here.
    handlers = [Handler(Settings(transport=one), Hooks(), variables) for one in ("auto", "grpc")]
    statuses: Counter[int] = Counter()
    failed: list[str] = []
    memory: list[float] = []
    bodies = itertools.islice(damaged(content_type, seed), count)
    for number, (body, accept) in enumerate(bodies):
        context = SimpleNamespace(
            **CONTEXT,
            rest_uri=f"http://localhost:{rest_port}/v1/models/m:predict",
            grpc_port=str(grpc_port),
            request_content_type=content_type,
            accept_header=accept,
            content_length=len(body),
        )
        status = status_of(handlers[number % 2], body, context)
        statuses[status] += 1
        if status >= 500 and len(failed) < 5:
            failed.append(f"{status} {accept} {body!r}")
        if (number + 1) % (count // 5) == 0:
            memory.append(pss_mib())
    return {"statuses": statuses, "failed": failed, "memory_mib": memory}


def status_of(handler: Handler, body: bytes, context: object) -> int:
    try:
        handler(io.BytesIO(body), context)
    except falcon.HTTPError as refusal:
        try:
            _ = refusal.headers
        except falcon.HTTPStatus as answer:
            return int(falcon.http_status_to_code(answer.status))
    return 200


def pss_mib() -> float:
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    # Without the files' part: that grows when another process stops sharing a library.
    line = next(line for line in rollup.splitlines() if line.startswith("Pss_Anon:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    logging.disable()
    fake = [sys.executable, "-m", "tests.servable_handler.fake_model_server"]
    with subprocess.Popen(fake, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        try:
            found = fuzz(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), tuple(told))
        finally:
            server.kill()
    print(json.dumps(found))
