"""Messages between `servable replay` and the process that sends, each with bodies as bytes."""

import json
import struct
from typing import Any, BinaryIO

_LENGTHS = struct.Struct(">II")


def build_frame(message: dict[str, Any], *bodies: bytes) -> bytes:
    """Return one message of a replay's process. `bodies` are joined; the message has the length of each."""
    head = json.dumps(message).encode()
    body = b"".join(bodies)
    return _LENGTHS.pack(len(head), len(body)) + head + body


def read_frame(file: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Return (message, bodies); None at the end of the file, also in the middle of a message."""
    lengths = file.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head_bytes, body_bytes = _LENGTHS.unpack(lengths)
    content = file.read(head_bytes + body_bytes)
    if len(content) < head_bytes + body_bytes:
        return None
    return json.loads(content[:head_bytes]), content[head_bytes:]
