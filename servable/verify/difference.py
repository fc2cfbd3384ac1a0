"""What verifying finds: differences, how they are found, and what is only said."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from servable.verify.resolving import UNKNOWN

# What names an item of a list, where the order is AWS's own.
_NAMES = (
    "VariantName",
    "InstanceType",
    "Name",
    "Id",
    "VariantPropertyType",
    "AlarmName",
    "CaptureMode",
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not as it was deployed."""

    kind: str
    """A word of its own for each; docs/operating.md lists them."""
    resource: str
    """What differs, by the name that AWS knows it by."""
    key: str = ""
    """The property that differs."""
    wanted: object = None
    found: object = None
    remedy: str

    def __str__(self) -> str:
        what = f"{self.resource}: {self.key}" if self.key else self.resource
        if self.wanted is None and self.found is None:
            said = self.kind
        else:
            said = f"{self.kind}: {_short(self.found)}, deployed {_short(self.wanted)}"
        return f"{what}: {said}; {self.remedy}"


@dataclass(kw_only=True)
class Report:
    """Everything about one environment."""

    environment: str
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be looked at, and what is good to know."""
    measured: dict[str, Any] = field(default_factory=dict)
    patchable: str | None = None
    """Whether AWS can patch the endpoint, in words; None if there is no endpoint."""

    def as_json(self) -> dict[str, Any]:
        return {"ok": not self.differences, **asdict(self)}


def _short(value: object, most: int = 160) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def gone(what: str, name: str) -> Difference:
    return Difference(
        kind=f"{what} missing",
        resource=name,
        wanted="there",
        found="not there",
        remedy="somebody deleted it: deploy again (`cdk deploy --force`, or another revision)",
    )


def changed(
    kind: str, resource: str, wanted: Mapping[str, Any], found: Mapping[str, Any], remedy: str
) -> Iterator[Difference]:
    """One difference for every property that is not as deployed."""
    for path, value, now in unequal(wanted, found):
        yield Difference(
            kind=kind, resource=resource, key=path, wanted=value, found=now, remedy=remedy
        )


def added(
    kind: str,
    resource: str,
    found: Mapping[str, Any],
    keys: Iterable[str],
    remedy: str,
    wanted: str | None = None,
) -> Iterator[Difference]:
    """One difference for each of these keys of `found`: nobody deployed them."""
    for key in keys:
        yield Difference(
            kind=kind, resource=resource, key=key, wanted=wanted, found=found[key], remedy=remedy
        )


def unequal(wanted: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, wanted, found) of every leaf of `wanted` that `found` does not have.

    What `found` has beyond is AWS's own default; what could not be resolved is not compared.
    """
    if wanted is UNKNOWN:
        return
    if isinstance(wanted, Mapping):
        inside = found if isinstance(found, Mapping) else {}
        for key, value in wanted.items():
            yield from unequal(value, inside.get(key), f"{path}.{key}" if path else key)
    elif isinstance(wanted, list):
        yield from _lists(wanted, found if isinstance(found, list) else [], path)
    elif not same(wanted, found):
        yield path, wanted, found


def _lists(
    wanted: Sequence[Any], found: Sequence[Any], path: str
) -> Iterator[tuple[str, Any, Any]]:
    key = next((one for one in _NAMES if all(_has(item, one) for item in [*wanted, *found])), None)
    if key is None or not wanted:
        if all(isinstance(one, str) for one in [*wanted, *found]):
            wanted, found = sorted(wanted), sorted(found)
        if len(wanted) != len(found) and UNKNOWN not in wanted:
            yield path, list(wanted), list(found)
            return
        for index, (one, other) in enumerate(zip(wanted, found, strict=False)):
            yield from unequal(one, other, f"{path}[{index}]")
        return
    there = {item[key]: item for item in found}
    for item in wanted:
        where = f"{path}[{item[key]}]"
        if item[key] in there:
            yield from unequal(item, there.pop(item[key]), where)
        else:
            yield where, "there", "not there"
    for name in there:
        yield f"{path}[{name}]", "not there", "there"


def _has(item: Any, key: str) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get(key), str)


def same(wanted: Any, found: Any) -> bool:
    """CloudFormation takes numbers and booleans as text too."""
    if isinstance(wanted, bool) or isinstance(found, bool):
        return str(wanted).lower() == str(found).lower()
    if isinstance(wanted, int | float) or isinstance(found, int | float):
        try:
            return abs(float(wanted) - float(found)) <= 1e-6 * max(1.0, abs(float(wanted)))
        except (TypeError, ValueError):
            return False
    return bool(wanted == found)
