"""Messages whose structure was read before: only the numbers in them are new.

Clients send one shape again and again, and get one shape back. Where every byte outside of
the numbers is the same as in a message that was read, and the length is, reading it again
would find the same.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

_MOST_LAYOUTS = 64
_MOST_BYTES = 1024  # of structure: beyond it is something else than numbers
Layout = TypeVar("Layout")
Range = tuple[int, int]


class LayoutCache(Generic[Layout]):
    """Cache of parsed layouts: what was read from a message of the same structure, one for each length."""

    def __init__(self) -> None:
        self._by_length: dict[int, tuple[tuple[tuple[int, int, bytes], ...], Layout]] = {}

    def get(self, message: bytes) -> Layout | None:
        entry = self._by_length.get(len(message))
        if entry is None:
            return None
        for start, end, piece in entry[0]:
            if message[start:end] != piece:
                return None
        return entry[1]

    def keep(self, message: bytes, numbers: Sequence[Range], layout: Layout) -> None:
        """`numbers`: where bytes are that `layout` does not depend on, in order."""
        at, pieces = 0, []
        for start, end in (*numbers, (len(message), len(message))):
            pieces.append((at, start, message[at:start]))
            at = end
        if sum(end - start for start, end, _ in pieces) > _MOST_BYTES:
            return
        if len(self._by_length) >= _MOST_LAYOUTS:
            self._by_length.clear()
        self._by_length[len(message)] = tuple(pieces), layout
