"""Which part of the house imports which: the graph in docs/architecture.md, in Mermaid's language."""

import ast
import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
APP = "app.py"
OUTSIDE = {"benchmarks", "scripts"}  # no part of what is deployed or installed


# {part: what it is}
PARTS = {
    "servable": "the command and its work",
    APP: "every environment is a stage",
    "stacks": "what is deployed together",
    "infra.constructs": "one AWS thing each",
    "infra.preflight": "what would fail or hurt",
    "infra.packing": "what goes into an archive",
    "infra.parameters": "an environment file's shape",
    "infra.policy": "sizing, settings, permissions",
    "infra.catalog": "facts about AWS, with sources",
    "model_packaging": "a model becomes model.tar.gz",
    "servable_local": "local container, local AWS",
    "servable_client": "what an application installs",
    "servable_scaling": "alarms and scaling as rules",
    "servable_handler": "what runs in the container",
    "servable_tensors": "arrays, messages, codecs",
}
# {module beside a part: the part that it belongs to}
BESIDE = {"infra.recording": "infra.constructs", "infra.functions": "infra.constructs"}

Arrows = frozenset[tuple[str, str]]
"""(who imports, what is imported), by the names of parts."""


class NotDrawnError(Exception):
    """The imports cannot be drawn in rows of known parts. `str()` says why, and what to do."""


def arrows() -> Arrows:
    """Every import between two parts, as the sources have it now. Raises `NotDrawnError`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {*settings["tool"]["importlinter"]["root_packages"]} - OUTSIDE
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
    for name in (*PARTS, *BESIDE):
        if module == name or module.startswith(f"{name}."):
            return BESIDE.get(name, name)
    if any(part.startswith(f"{module}.") for part in PARTS):
        return module
    raise NotDrawnError(
        f"{module} stands in no part of the picture: add it to PARTS in "
        "scripts/documentation/import_graph.py"
    )


def without_detours(found: Arrows) -> Arrows:
    """Those that follow from no others: a -> c goes where a -> b -> c is there.

    Raises `NotDrawnError` where parts import each other in a circle.
    """
    imports = {part: {b for a, b in found if a == part} for part in PARTS}
    below: dict[str, set[str]] = {}
    try:
        for part in TopologicalSorter(imports).static_order():
            below[part] = imports[part].union(*(below[name] for name in imports[part]))
    except CycleError as circle:
        names = ", ".join(circle.args[1])
        raise NotDrawnError(f"these import each other: {names}; see lint-imports") from None
    return frozenset((a, c) for a, c in found if not any(c in below[b] for b in imports[a]))


def diagram(found: Arrows) -> str:
    """The same arrows give the same bytes. Source of the language: https://mermaid.js.org/syntax/flowchart.html"""
    boxes = [f'{_id(part)}["{part}<br>{what}"]' for part, what in PARTS.items()]
    drawn = [f"{_id(a)} --> {_id(b)}" for a, b in sorted(without_detours(found))]
    return "\n    ".join(["flowchart TD", *boxes, *drawn]) + "\n"


def _id(name: str) -> str:
    return name.replace(".", "_")


def page() -> str:
    """docs/architecture.md with the arrows that the sources have now."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.sub(r"(?s)(```mermaid\n).*?(```\n)", rf"\g<1>{diagram(arrows())}\2", text)
