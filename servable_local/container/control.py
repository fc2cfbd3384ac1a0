"""Asking the supervisor, from a process of its endpoint or from whoever knows the folder."""

import json
import os
import socket
from pathlib import Path
from typing import Any

SOCKET = "control.sock"


def ask(folder: Path, **question: Any) -> dict[str, Any]:
    """One question, one answer, both JSON. Raises `OSError` when nobody is there."""
    with socket.socket(socket.AF_UNIX) as connection:
        # By a descriptor of the folder: a path of more than 107 letters is no address.
        held = os.open(folder, os.O_RDONLY)
        try:
            connection.connect(f"/proc/self/fd/{held}/{SOCKET}")
        finally:
            os.close(held)
        connection.sendall(json.dumps(question).encode() + b"\n")
        with connection.makefile("rb") as answer:
            found: dict[str, Any] = json.loads(answer.readline())
    return found
