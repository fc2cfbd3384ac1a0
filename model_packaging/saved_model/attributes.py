"""Attributes of a node: entries of NodeDef.attr, and which values of them are compared."""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from servable_tensors import wire

# Most bytes kept of a string: a path, or the version of a StableHLO module.
_STRING_BYTES = 256
# Portable StableHLO is MLIR's bytecode, in which names end with a zero: add_v1, gather_v2.
# Source: https://mlir.llvm.org/docs/BytecodeFormat/, read 2026-11-22
_BYTECODE = b"ML\xefR"
_HEAD_BYTES = 40
_VERSIONED = re.compile(rb"(?<![a-z0-9_])[a-z][a-z0-9_]*_v[0-9]+(?=\0)")
# Beginning of an entry of NodeDef.attr with key "value" (of a constant), or "module".
VALUE = b"\n\x05value\x12"
_MODULE = b"\n\x06module\x12"

Attribute = tuple[str, Any]
"""Which field of AttrValue it is ("s", "i", "list(type)", "list()" where a list is empty), and the
value as JSON has it: the beginning of a string, None for shapes, tensors and functions."""


def canonical(entry: bytes) -> bytes:
    """The attribute itself, or in its place one that says the same without what it holds."""
    if len(entry) < _STRING_BYTES and not entry.startswith((VALUE, _MODULE)):
        return entry
    message = wire.AttrEntry.FromString(entry)
    kind = message.value.WhichOneof("value")
    if kind == "tensor":
        message.value.tensor = b""
    elif kind == "s":
        text = message.value.s
        message.value.s = text[:_STRING_BYTES]
        if text.startswith(_BYTECODE):  # a StableHLO module: also the names of its operations
            names = sorted(set(_VERSIONED.findall(text)))
            message.value.s = b"\0".join((text[:_HEAD_BYTES], *names))
    return bytes(message.SerializeToString())


@functools.lru_cache(maxsize=1 << 14)
def attribute(entry: bytes) -> tuple[str, Attribute]:
    """An entry of NodeDef.attr as its name and value."""
    message = wire.AttrEntry.FromString(entry)
    return message.key, attribute_value(message.value)


def attribute_value(message: Any) -> Attribute:
    """An AttrValue as kind and value. `message`: wire.AttrValue."""
    kind = message.WhichOneof("value") or ""
    if kind == "list":
        kinds = [item.name for item, _ in message.list.ListFields()]
        several = (
            [_plain(kinds[0], item) for item in getattr(message.list, kinds[0])] if kinds else []
        )
        return f"list({''.join(kinds)})", several
    return kind, _plain(kind, getattr(message, kind)) if kind else None


def _plain(kind: str, value: Any) -> Any:
    if kind == "s":
        # latin-1: any byte has a character.
        return value.decode("latin-1")
    if kind == "func":
        return value.name
    return None if kind in ("shape", "tensor") else value


def named_functions(attributes: Iterable[Attribute]) -> Iterator[str]:
    """The functions that these values name."""
    for kind, value in attributes:
        if kind == "func":
            yield value
        elif kind == "list(func)":
            yield from value
