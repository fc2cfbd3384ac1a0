"""Models that are loaded into a running endpoint, and unloaded."""

import json
import time
from typing import Any

from benchmarks.seeds.crowd import connected
from benchmarks.seeds.server import Server


class MultiModel:
    """An endpoint in multi-model mode, whose archive holds versions/MODEL/."""

    def __init__(self, server: Server) -> None:
        self.url = server.url
        self._folder = server.archive / "versions"

    def load(self, name: str, model: str) -> float:
        told = {"model_name": name, "url": str(self._folder / model)}
        return self._seconds("POST", "/models", told)

    def unload(self, name: str) -> float:
        return self._seconds("DELETE", f"/models/{name}", None)

    def _seconds(self, method: str, path: str, told: Any) -> float:
        began, connection = time.perf_counter(), connected(self.url)
        body = json.dumps(told).encode() if told else None
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        words = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {words[:300]!r}")
        return time.perf_counter() - began
