"""The rank of tensors in the JSON of TensorFlow Serving's REST interface, seen without parsing it.

TensorFlow Serving takes a tensor's rank from the lists around the first value, and refuses a body
in which another value lies deeper or less deep. So the brackets before the first value tell the
rank, wherever the body has the usual form; any other is parsed.
Source: GetDenseTensorShape and FillTensorProto in
https://github.com/tensorflow/serving/blob/master/tensorflow_serving/util/json_tensor.cc (2026-11-22)
"""

import functools
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from servable_tensors import TensorError

# Up to the first value: the signature's name may come first, as `with_signature` writes it.
_USUAL = re.compile(
    rb'\s*\{\s*(?:"signature_name"\s*:\s*"([^"]*)"\s*,\s*)?'
    rb'"(instances|inputs)"\s*:([\[\s]*)(\{?)'
)
_SIGNATURE_NAME = b'"signature_name"'
_PLAIN_NAME = re.compile(r"[\w./ -]+", re.ASCII)


class JsonRequest:
    """A body of a predict call. Raises `TensorError` for one that has to be parsed and cannot be."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._usual = _USUAL.match(text)
        # Without a backslash names stand as they are. A signature's name behind the values is rare,
        # and a body of numbers has no quote there: it is found to be so much sooner than a name.
        if self._usual is not None and (
            b"\\" in text
            or text.find(_SIGNATURE_NAME, text.find(b'"', self._usual.end(2) + 1)) >= 0
        ):
            self._usual = None
        self._parsed = _parsed(text) if self._usual is None else {}

    @property
    def signature(self) -> str | None:
        """The signature that the body names; None where it names none."""
        if self._usual is not None:
            return (self._usual[1] or b"").decode(errors="surrogateescape") or None
        name = self._parsed.get("signature_name")
        return name if isinstance(name, str) and name else None

    def ranks(self, names: Collection[str]) -> dict[str, int]:
        """The rank of each of these inputs, as far as the body has them.

        A value without a name counts for the only one of `names`. Nothing is said of bodies that
        the model server refuses before it looks at tensors.
        """
        if self._usual is None or not all(map(_PLAIN_NAME.fullmatch, names)):
            return _ranks_of(self._parsed or _parsed(self._text), names)
        depth = self._usual[3].count(b"[")
        if not self._usual[4]:
            return dict.fromkeys(names, depth)
        start = self._usual.start(4)
        values = ((name, _pattern(name).search(self._text, start)) for name in names)
        return {name: depth + value[1].count(b"[") for name, value in values if value}


@functools.lru_cache(maxsize=256)
def _pattern(name: str) -> re.Pattern[bytes]:
    return re.compile(rb'[{,]\s*"%s"\s*:([\[\s]*)' % re.escape(name.encode()))


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        # The first of two equal names counts, as RapidJSON's FindMember finds it.
        parsed = json.loads(
            text.decode(errors="surrogateescape"),
            object_pairs_hook=lambda pairs: dict(reversed(pairs)),
        )
    except (ValueError, RecursionError) as error:
        raise TensorError(f"the body is no JSON: {error}") from None
    return parsed if isinstance(parsed, dict) else {}


def _ranks_of(request: Mapping[str, Any], names: Collection[str]) -> dict[str, int]:
    rows = request.get("instances")
    if isinstance(rows, list) and rows and isinstance(rows[0], dict):
        return {name: 1 + _depth(rows[0][name]) for name in names if name in rows[0]}
    value = request.get("inputs") if rows is None else rows
    if isinstance(value, dict):
        return {name: _depth(value[name]) for name in names if name in value}
    return dict.fromkeys(names, _depth(value))


def _depth(value: object) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = value[0] if value else None
    return depth
