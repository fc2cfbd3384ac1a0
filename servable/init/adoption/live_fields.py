"""Take the fields of a Describe response one by one, so that none is overlooked."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

Effect = Literal["lost", "changed", "none"]
HIDDEN = "(not shown)"


@dataclass(frozen=True)
class NotCarried:
    """A deployed setting that the environment file doesn't express, and the reason."""

    where: str
    """Resource and field, for example endpoint configuration: ProductionVariants[a].AcceleratorType."""
    value: object
    reason: str
    effect: Effect
    """lost: the new endpoint lacks it; changed: it has a different value; none: it behaves alike."""

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value}"
        return f"{self.where}{shown}: {self.reason}"


class Listed(list[NotCarried]):
    """What the environment file doesn't express, in the order in which it was found."""

    def note(self, where: str, value: object, reason: str, effect: Effect = "changed") -> None:
        self.append(NotCarried(where, value, reason, effect))


class LiveFields:
    """One Describe response. Fields that aren't taken are listed as not carried over."""

    def __init__(
        self,
        where: str,
        described: Mapping[str, Any],
        listed: Listed,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        """Copy the response without the known fields.

        `where`: the resource, in words. `known`: fields that aren't settings, or that have AWS's
        default. A known field is dropped if it has the given value; the value None matches any.
        """
        self._where, self._listed = where, listed
        self._fields = {
            name: copy.deepcopy(value)
            for name, value in described.items()
            if not (known and name in known and known[name] in (None, value))
        }

    def take(self, path: str) -> Any:
        """Return a field or None, and count it as expressed. `path`: names with dots between them."""
        *outer, name = path.split(".")
        inside: Any = self._fields
        for step in outer:
            inside = inside.get(step) or {}
        return inside.pop(name, None)

    def take_keys(self, paths: Mapping[str, str]) -> dict[str, Any]:
        """Take the fields that exist as values of keys. `paths`: key -> path of its field."""
        taken = {key: self.take(path) for key, path in paths.items()}
        return {key: value for key, value in taken.items() if value not in (None, "", [])}

    def note(self, field: str, value: object, reason: str, effect: Effect = "changed") -> None:
        """List a field as not carried over."""
        self._listed.note(f"{self._where}: {field}", value, reason, effect)

    def note_rest(self, **changed: str) -> None:
        """List the fields that weren't taken. `changed`: field -> why its value changes."""
        for path, value in _iterate_leaves(self._fields, ""):
            if reason := changed.get(path.partition(".")[0]):
                self.note(path, value, reason)
            else:
                self.note(path, value, "no key of an environment file can express it", "lost")


def _iterate_leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _iterate_leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _iterate_leaves(item, f"{path}[{number}]")
    elif value not in (None, [], ""):
        yield path, value


def accepts(kind: TypeAdapter[Any], value: object) -> bool:
    """Return whether the type of a key accepts a value."""
    try:
        kind.validate_python(value)
    except ValidationError:
        return False
    return True
