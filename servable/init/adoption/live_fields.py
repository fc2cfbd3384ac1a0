"""The fields of a live description, taken one by one, so that none is overlooked."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Effect = Literal["lost", "changed", "none"]
HIDDEN = "(not shown)"


@dataclass(frozen=True, kw_only=True)
class NotCarried:
    """A live setting that the environment file does not express, and why."""

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
    """One live description. What is not taken at the end is listed as not carried over."""

    def __init__(
        self, where: str, described: Mapping[str, Any], *, known: Mapping[str, Any]
    ) -> None:
        """`where`: the resource, in words. `known`: fields that are no settings, or AWS's own defaults.

        A known field is dropped if its value is the given one, or with None whatever it is.
        """
        self._where = where
        self._fields = copy.deepcopy(dict(described))
        for name, value in known.items():
            if name in self._fields and (value is None or self._fields[name] == value):
                del self._fields[name]

    def take(self, *path: str) -> Any:
        """Return a field, or None, and count it as expressed."""
        *outer, name = path
        inside: Any = self._fields
        for step in outer:
            inside = inside.get(step) or {}
        return inside.pop(name, None)

    def look(self, name: str) -> Any:
        """Return a field, or None, without counting it as expressed."""
        return self._fields.get(name)

    def not_carried(self, reasons: Mapping[str, tuple[str, Effect]]) -> Iterator[NotCarried]:
        """Yield what was not taken. `reasons`: first field of the path -> (reason, effect)."""
        for path, value in _leaves(self._fields, ""):
            first = path.partition(".")[0].partition("[")[0]
            reason, effect = reasons.get(first, ("no key of an environment file says it", "lost"))
            yield NotCarried(
                where=f"{self._where}: {path}", value=value, reason=reason, effect=effect
            )


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    elif value not in (None, [], ""):
        yield path, value
