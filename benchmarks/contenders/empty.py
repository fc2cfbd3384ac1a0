"""Reads the request and answers nothing: what is there before any handler does its work."""

from typing import Any


def handler(data: Any, context: Any) -> tuple[bytes, str]:
    data.read()
    return b"{}", "application/json"
