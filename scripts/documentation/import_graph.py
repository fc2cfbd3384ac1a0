"""Which part of the house imports which: the graph that docs/architecture.svg draws."""

import ast
import graphlib
import tomllib
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
    for node in ast.walk(ast.parse((ROOT / APP).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in graph.modules:
            found.add((APP, part_of(node.module)))
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


def rows(found: Arrows) -> dict[str, int]:
    """How far each part is from the ground: one above the highest that it imports.

    Raises `NotDrawnError` where parts import each other in a circle.
    """
    imports = {part.name: {b for a, b in found if a == part.name} for part in PARTS}
    sorter = graphlib.TopologicalSorter(imports)
    try:
        sorter.prepare()
    except graphlib.CycleError as circle:
        names = ", ".join(circle.args[1])
        raise NotDrawnError(f"these import each other: {names}; see lint-imports") from None
    height: dict[str, int] = {}
    row = 0
    while sorter:
        ready = sorter.get_ready()
        height |= dict.fromkeys(ready, row)
        sorter.done(*ready)
        row += 1
    return height


def without_detours(found: Arrows) -> Arrows:
    """Those that follow from no others: a -> c goes where a -> b -> c is there."""
    below: dict[str, set[str]] = {}
    for part in sorted(height := rows(found), key=lambda name: height[name]):
        imported = {b for a, b in found if a == part}
        below[part] = imported.union(*(below[name] for name in imported))
    return frozenset(
        (a, c) for a, c in found if not any((a, b) in found and c in below[b] for b in below)
    )
