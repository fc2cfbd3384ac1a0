"""The findings of `servable verify`: differences, their computation, and notes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal

from servable.verdict import Verdict
from servable.verify.deployed import UNKNOWN, Properties

# CloudFormation leaves a resource alone that the template doesn't change. A drift-aware change set compares
# with the actual resources:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/drift-aware-change-sets.html (2026-11-29)
# `Report.add` replaces {environment} in these remedies.
RESTORE = "restore it: `cdk deploy '{environment}/*' --revert-drift`"
"""The remedy for a change outside CloudFormation."""
DEPLOY = "`cdk deploy '{environment}/*'`"
GO_BACK = f"`servable history {{environment}} --restore previous --write`, then {DEPLOY}"
"""Returns to the deployment before the current one."""
KEEP = f"`servable history {{environment}} --restore live --write`, then {DEPLOY}"
"""Returns to the current deployment, after a deployment that failed."""
Answers = Literal["not asked", "not compared", "compared"]
"""Ordered by how much is known about the endpoint's responses."""
# The keys that name an item of a list whose order isn't the template's.
_NAMES = ["VariantName", "InstanceType", "Name", "Id", "VariantPropertyType", "AlarmName"]
_NAMES += ["CaptureMode"]
# The names of the two values, if they aren't the live and the deployed one.
SIDES = {
    "not as in the file": ("deployed", "in the file"),
    "override": ("deployed", "in the file"),
    "golden answer": ("got", "wanted"),
}


@dataclass(frozen=True)
class Difference:
    """One property or resource that isn't as it was deployed."""

    kind: str
    """The kind of difference; docs/operating.md lists all."""
    resource: str
    """The AWS name of what differs."""
    remedy: str
    key: str = ""
    """The property that differs."""
    wanted: object = None
    found: object = None

    def __str__(self) -> str:
        what = f"{self.resource}: {self.key}" if self.key else self.resource
        if self.wanted is None and self.found is None:
            text = self.kind
        else:
            found, wanted = SIDES.get(self.kind, ("live", "deployed"))
            there, meant = _shorten_values(self.found, self.wanted)
            text = f"{self.kind}: {found} {there}, {wanted} {meant}"
        return f"{what}: {text}; {self.remedy}"


@dataclass(kw_only=True)
class Report:
    """The result of verifying one environment."""

    environment: str
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Checks that could not be done, and other information."""
    measured: dict[str, Any] = field(default_factory=dict)
    patchable: str | None = None
    """Whether AWS can patch the endpoint, in words; None if there is no endpoint."""
    answers: Answers = "not asked"
    """What was done with golden requests; the variant that is known least decides."""
    invoke: bool = True
    """Whether golden requests are sent at all."""

    def add(self, found: Iterable[Difference | str]) -> None:
        """Append notes (str), and differences with the environment's name in their commands."""
        for each in found:
            if isinstance(each, str):
                self.notes.append(each)
            else:
                remedy = each.remedy.replace("{environment}", self.environment)
                self.differences.append(replace(each, remedy=remedy))

    @property
    def verdict(self) -> Verdict:
        if self.differences:
            return "does not hold"
        return "holds" if self.answers == "compared" or not self.invoke else "cannot be told"

    @property
    def summary(self) -> str:
        """Return the verdict in a few words."""
        if count := len(self.differences):
            return f"{count} difference{'s' if count > 1 else ''}"
        return "as deployed" + (f", answers {self.answers}" if self.answers != "compared" else "")

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.verdict == "holds", "verdict": self.verdict, **asdict(self)}


def _shorten_values(*values: object, most: int = 160) -> list[str]:
    """Return the values as text, cut to `most` characters.

    Long values start shortly before their first difference.
    """
    texts = ["nothing" if value is None else str(value) for value in values]
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    start = max(0, alike - most // 4) if max(map(len, texts)) > most else 0
    return [
        ("…" if start else "") + text[start : start + most] + ("…" if text[start + most :] else "")
        for text in texts
    ]


def build_missing_difference(what: str, name: str, remedy: str = RESTORE) -> Difference:
    """Return the difference for a resource that was deleted outside CloudFormation."""
    remedy = f"it was deleted outside CloudFormation; {remedy}"
    return Difference(f"{what} missing", name, remedy, wanted="there", found="not there")


def find_changes(
    kind: str, resource: str, wanted: Any, actual: Any, remedy: str = RESTORE, key: str = ""
) -> Iterator[Difference]:
    """Yield a difference for every property that isn't as deployed.

    `key`: the property whose values are compared; "": the values are properties by name.
    """
    for path, value, now in find_unequal(wanted, actual, key):
        yield Difference(kind, resource, remedy, path, value, now)


def find_undeclared(
    kind: str, name: str, wanted: Properties, actual: Properties, defaults: Properties, remedy: str
) -> Iterator[Difference]:
    """Yield a difference for each key that the template omits and that isn't at its default."""
    for key, default in defaults.items():
        now = actual.get(key)
        if key not in wanted and now is not None and not is_same(default, now):
            meant = "the default" if default is None else default
            yield Difference(kind, name, remedy, key, meant, now)


def find_unequal(wanted: Any, actual: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, wanted, actual) for every leaf of `wanted` that differs in `actual`.

    Further values of `actual` are AWS's defaults; unresolved values aren't compared.
    """
    if wanted is UNKNOWN:
        return
    if isinstance(wanted, Mapping):
        inside = actual if isinstance(actual, Mapping) else {}
        for key, value in wanted.items():
            yield from find_unequal(value, inside.get(key), f"{path}.{key}" if path else key)
    elif isinstance(wanted, list):
        yield from _compare_lists(wanted, actual if isinstance(actual, list) else [], path)
    elif not is_same(wanted, actual):
        yield path, wanted, actual


def _compare_lists(
    wanted: Sequence[Any], actual: Sequence[Any], path: str
) -> Iterator[tuple[str, Any, Any]]:
    several = [*wanted, *actual]
    tables = all(isinstance(item, Mapping) for item in several)
    named = (name for name in _NAMES if all(isinstance(item.get(name), str) for item in several))
    key = next(named, None) if wanted and tables else None
    if key is not None:
        sides = [{item[key]: item for item in side} for side in (wanted, actual)]
        for name in {**sides[0], **sides[1]}:
            if all(name in side for side in sides):
                yield from find_unequal(sides[0][name], sides[1][name], f"{path}[{name}]")
            else:
                there = ["there" if name in side else "not there" for side in sides]
                yield f"{path}[{name}]", there[0], there[1]
        return
    if all(isinstance(item, str) for item in several):
        wanted, actual = sorted(wanted), sorted(actual)
    if len(wanted) != len(actual) and UNKNOWN not in wanted:
        yield path, list(wanted), list(actual)
        return
    for index, (expected, present) in enumerate(zip(wanted, actual, strict=False)):
        yield from find_unequal(expected, present, f"{path}[{index}]")


def is_same(wanted: Any, actual: Any) -> bool:
    """Return whether two values are equal. CloudFormation also accepts numbers and booleans as text."""
    if isinstance(wanted, bool) or isinstance(actual, bool):
        return str(wanted).lower() == str(actual).lower()
    if isinstance(wanted, int | float) or isinstance(actual, int | float):
        try:
            return abs(float(wanted) - float(actual)) <= 1e-6 * max(1.0, abs(float(wanted)))
        except (TypeError, ValueError):
            return False
    return bool(wanted == actual)
