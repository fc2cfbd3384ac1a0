"""Which part of the house imports which: the graph that docs/architecture.svg draws."""

import ast
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
APP = "app.py"


@dataclass(frozen=True)
class Box:
    """A box of the picture. `column`: where it stands, from the left; the row is computed."""

    name: str
    what: str
    column: int
    also: tuple[str, ...] = ()  # modules beside the package that belong to it


PARTS = (
    Box("servable", "the command and its work", 1),
    Box(APP, "every environment is a stage", 0),
    Box("stacks", "what is deployed together", 0),
    Box(
        "infra.constructs", "one AWS thing each", 0, also=("infra.recording", "infra.functions")
    ),
    Box("infra.preflight", "what would fail or hurt", 1),
    Box("infra.packing", "what goes into an archive", 0),
    Box("infra.parameters", "an environment file's shape", 0),
    Box("infra.policy", "sizing, settings, permissions", 0),
    Box("infra.catalog", "facts about AWS, with sources", 0),
    Box("model_packaging", "a model becomes model.tar.gz", 1),
    Box("servable_local", "local container, local AWS", 2),
    Box("servable_client", "what an application installs", 3),
    Box("servable_scaling", "alarms and scaling as rules", 3),
    Box("servable_handler", "what runs in the container", 2),
    Box("servable_tensors", "arrays, messages, codecs", 2),
)  # fmt: skip

Arrows = frozenset[tuple[str, str]]
"""(who imports, what is imported), by the names of parts."""


class NotDrawnError(Exception):
    """The imports cannot be drawn in rows of known parts. `str()` says why, and what to do."""


def arrows() -> Arrows:
    """Every import between two parts, as the sources have it now. Raises `NotDrawnError`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = settings["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, cache_dir=None)
    found = {
        (part_of(module), part_of(other))
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    }
    found |= {(APP, part_of(module)) for module in _imported_by_app(graph.modules)}
    return frozenset(one for one in found if one[0] != one[1])


def part_of(module: str) -> str:
    """The part that holds it; a package that only holds parts is none of its own: "infra"."""
    for part in PARTS:
        if any(module == name or module.startswith(f"{name}.") for name in (part.name, *part.also)):
            return part.name
    if any(part.name.startswith(f"{module}.") for part in PARTS):
        return module
    raise NotDrawnError(
        f"{module} stands in no part of the picture: add it to PARTS in "
        "scripts/documentation/import_graph.py"
    )


def _imported_by_app(modules: Iterable[str]) -> list[str]:
    tree = ast.parse((ROOT / APP).read_text(encoding="utf-8"))
    named = [
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    ]
    return [one for one in named if one in set(modules)]


def without_detours(found: Arrows) -> Arrows:
    """Those that follow from no others: a -> c goes where a -> b -> c is there."""
    reached = _reached(found)
    return frozenset(
        (a, c)
        for a, c in found
        if not any((a, b) in found and c in reached[b] for b in reached if b not in (a, c))
    )


def rows(found: Arrows) -> dict[str, int]:
    """How far each part is from the ground: one above the highest that it imports.

    Raises `NotDrawnError` where parts import each other in a circle.
    """
    below: dict[str, set[str]] = {part.name: set() for part in PARTS}
    for a, b in found:
        below[a].add(b)
    height: dict[str, int] = {}
    while len(height) < len(below):
        ready = [
            one for one, under in below.items() if one not in height and under <= height.keys()
        ]
        if not ready:
            circle = ", ".join(sorted(below.keys() - height.keys()))
            raise NotDrawnError(
                f"these import each other, or stand above such: {circle}; see lint-imports"
            )
        for one in ready:
            height[one] = 1 + max((height[under] for under in below[one]), default=-1)
    return height


def _reached(found: Arrows) -> Mapping[str, set[str]]:
    reached = {part.name: {b for a, b in found if a == part.name} for part in PARTS}
    for _ in PARTS:
        for under in reached.values():
            under |= {far for near in list(under) for far in reached.get(near, ())}
    return reached
