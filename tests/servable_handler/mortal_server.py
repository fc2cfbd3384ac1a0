"""A model server in a process of its own that some requests end: `python -m … FILE`.

Prints its gRPC and its REST port; adds a line to the file for each request that it begins with.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.servable_handler.fake_model_server import FakeModelServer

DEADLY = b'"deadly"'


class MortalServer(FakeModelServer):
    def __init__(self, counted: Path) -> None:
        super().__init__()
        self._counted = counted

    def grpc_answer(self, method: str, body: bytes, context: Any) -> bytes:
        if method != "GetModelStatus":
            self._begin(body)
        return super().grpc_answer(method, body, context)

    def rest_answers(self, path: str, body: bytes) -> tuple[int, bytes]:
        if path.endswith(":predict"):
            self._begin(body)
        return super().rest_answers(path, body)

    def _begin(self, body: bytes) -> None:
        with self._counted.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if DEADLY in body:
            os._exit(134)  # as TensorFlow's abort


if __name__ == "__main__":
    with MortalServer(Path(sys.argv[1])) as server:
        print(json.dumps([server.grpc_port, server.rest_port]), flush=True)
        sys.stdin.read()
