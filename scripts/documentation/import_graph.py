"""docs/architecture.svg: the parts in rows, what imports above what is imported."""

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

from scripts.build_wheels import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
APP = "app.py"
# {part: (column of the picture, what it is)}; its row follows from the imports.
PARTS = {
    "servable": (1, "the command and its work"),
    APP: (0, "every environment is a stage"),
    "stacks": (0, "what is deployed together"),
    "infra.constructs": (0, "one AWS thing each"),
    "infra.preflight": (1, "what would fail or hurt"),
    "infra.packing": (0, "what goes into an archive"),
    "infra.parameters": (0, "an environment file's shape"),
    "infra.policy": (0, "sizing, settings, permissions"),
    "infra.catalog": (0, "facts about AWS, with sources"),
    "model_packaging": (1, "a model becomes model.tar.gz"),
    "servable_local": (4, "local container, local AWS"),
    "servable_client": (3, "what an application installs"),
    "servable_scaling": (3.5, "alarms and scaling as rules"),
    "servable_handler": (2, "what runs in the container"),
    "servable_tensors": (2, "arrays, messages, codecs"),
}
# {module beside a part: the part that it belongs to}
BESIDE = {"infra.recording": "infra.constructs", "infra.functions": "infra.constructs"}

Arrows = frozenset[tuple[str, str]]
"""(who imports, what is imported), by the names of parts."""


class NotDrawnError(Exception):
    """The imports cannot be drawn in rows of known parts. `str()` says why, and what to do."""


def arrows() -> Arrows:
    """Every import between two parts, as the sources have it now. Raises `NotDrawnError`."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {
        (part_of(module), part_of(other))
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    }
    for node in ast.walk(ast.parse((ROOT / APP).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in graph.modules:
            imports.add((APP, part_of(node.module)))
    return frozenset((a, b) for a, b in imports if a != b)


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


def reached(imports: Arrows) -> Mapping[str, set[str]]:
    """{part: every part that it imports, itself or by others}, what is imported first.

    Raises `NotDrawnError` where parts import each other in a circle.
    """
    direct = {part: {b for a, b in imports if a == part} for part in PARTS}
    below: dict[str, set[str]] = {}
    try:
        for part in TopologicalSorter(direct).static_order():
            below[part] = direct[part].union(*(below[name] for name in direct[part]))
    except CycleError as circle:
        names = ", ".join(circle.args[1])
        raise NotDrawnError(f"these import each other: {names}; see lint-imports") from None
    return below


WIDTH, ROW = 1490, 112  # pixels
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" text-anchor="middle" font-family="sans-serif">
<marker id="tip" refX="4" refY="8" markerWidth="8" markerHeight="8"><path d="M0,0 L4,8 L8,0 z"/></marker>
<rect width="100%" height="100%" fill="white"/>
"""
ARROW = '<path d="M{0},{1} C{0},{4} {2},{1} {2},{4} V{3}" fill="none" stroke="black" marker-end="url(#tip)"/>'
BOX = """
<g transform="translate({} {})">
<rect x="-125" width="250" height="62" rx="8" fill="#dbeafe" stroke="#2563a8"/>
<text y="26" font-size="19" font-weight="bold">{}</text>
<text y="50" font-size="15">{}</text>
</g>"""


def svg(imports: Arrows) -> str:
    """The same arrows give the same bytes; one that follows from others is left out."""
    below = reached(imports)
    height: dict[str, int] = {}
    for part, others in below.items():
        height[part] = 1 + max((height[other] for other in others), default=-1)
    rows = 1 + max(height.values())
    place = {
        part: (165 + int(290 * column), 25 + ROW * (rows - 1 - height[part]))
        for part, (column, _) in PARTS.items()
    }
    text = HEAD.format(WIDTH, ROW * rows)
    for a, b in sorted(imports):
        if not any((a, other) in imports and b in below[other] for other in below):
            (x1, y1), (x2, y2) = place[a], place[b]
            # The end is beside the middle, where a gap between boxes of the other rows may be.
            side = (x2 > x1) - (x2 < x1)
            text += ARROW.format(x1 + side * 62, y1 + 62, x2 - side * 15, y2, y1 + ROW - 16)
    for part, (_, what) in PARTS.items():
        text += BOX.format(*place[part], part, what)
    return text + "\n</svg>\n"
