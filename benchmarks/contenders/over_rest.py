"""Input and output handlers like most published ones: the container sends the request between."""

from typing import Any


def input_handler(data: Any, context: Any) -> bytes:
    body: bytes = data.read()
    return body


def output_handler(response: Any, context: Any) -> tuple[bytes, str]:
    if response.status_code != 200:
        raise ValueError(response.content.decode())
    return response.content, context.accept_header
