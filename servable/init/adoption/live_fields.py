"""Take the fields of a Describe response one by one, so that none is overlooked."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Effect = Literal["lost", "changed", "none"]
HIDDEN = "(not shown)"


@dataclass(frozen=True, kw_only=True)
class NotCarried:
    """A deployed setting that the environment file doesn't express, and the reason."""

    where: str
    """Resource and field, for example endpoint configuration: ProductionVariants[a].AcceleratorType."""
    value: object
    reason: str
    effect: Effect
    """lost: the new endpoint lacks it; changed: it has something else; none: it behaves alike."""

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value}"
        return f"{self.where}{shown}: {self.reason}"


class LiveFields:
    """One Describe response. Fields that aren't taken are listed as not carried over."""

    def __init__(
        self, where: str, described: Mapping[str, Any], *, known: Mapping[str, Any]
    ) -> None:
        """Copy the response, and drop the known fields.

        `where`: the resource, in words. `known`: fields that aren't settings, or that have AWS's
        default. A known field is dropped if it has the given value; the value None matches any.
        """
        self._where = where
        self._fields = copy.deepcopy(dict(described))
        for name, value in known.items():
            if name in self._fields and (value is None or self._fields[name] == value):
                del self._fields[name]

    def take(self, *path: str) -> Any:
        """Return a field or None, and count it as expressed."""
        *outer, name = path
        inside: Any = self._fields
        for step in outer:
            inside = inside.get(step) or {}
        return inside.pop(name, None)

    def peek(self, name: str) -> Any:
        """Return a field or None, without counting it as expressed."""
        return self._fields.get(name)

    def list_not_carried(self, reasons: Mapping[str, tuple[str, Effect]]) -> Iterator[NotCarried]:
        """Yield the fields that weren't taken. `reasons`: first field of the path -> (reason, effect)."""
        for path, value in _iterate_leaves(self._fields, ""):
            first = path.partition(".")[0].partition("[")[0]
            reason, effect = reasons.get(
                first, ("no key of an environment file expresses it", "lost")
            )
            yield NotCarried(
                where=f"{self._where}: {path}", value=value, reason=reason, effect=effect
            )


def _iterate_leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _iterate_leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _iterate_leaves(item, f"{path}[{number}]")
    elif value not in (None, [], ""):
        yield path, value
