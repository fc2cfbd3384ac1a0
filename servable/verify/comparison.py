"""Whether a service holds what a template says, in whatever order and form it answers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from servable.verify.resolving import UNKNOWN

# What names an item of a list, where the order is AWS's own.
_NAMES = ("VariantName", "Name", "Id", "VariantPropertyType", "AlarmName", "CaptureMode")


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
