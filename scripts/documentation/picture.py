"""docs/architecture.svg: the parts in rows, what imports above what is imported."""

from xml.sax.saxutils import escape

from scripts.documentation.import_graph import APP, PARTS, Arrows, Box, rows, without_detours

# All in the picture's pixels.
WIDTH = 1200
COLUMNS = (165, 455, 745, 1035)  # the middle of each
BOX_WIDTH, BOX_HEIGHT = 250, 62
ROW_HEIGHT = 112
TOP, BOTTOM = 96, 84
TIP = 16  # the last bit of an arrow is straight, for its head
INK, FAINT, PAPER = "#1f2933", "#52606d", "#ffffff"
# (box, edge) by what a part is for.
KINDS = {
    "what a person starts": ("#fde9c9", "#c27c0e"),
    "how it is built and checked": ("#dbeafe", "#2563a8"),
    "model and container": ("#d9f2e3", "#2f855a"),
    "measuring and this machine": ("#ece4fa", "#6b46c1"),
}
KIND_OF = {
    "servable": 0, APP: 0,
    "model_packaging": 2, "servable_handler": 2, "servable_tensors": 2, "servable_client": 2,
    "servable_local": 3, "servable_scaling": 3,
}  # fmt: skip


def svg(found: Arrows) -> str:
    """The same arrows give the same bytes."""
    height = rows(found)
    top = max(height.values())
    tall = TOP + (top + 1) * ROW_HEIGHT + BOTTOM - (ROW_HEIGHT - BOX_HEIGHT)
    middle = {
        part.name: (
            COLUMNS[part.column],
            TOP + (top - height[part.name]) * ROW_HEIGHT + BOX_HEIGHT // 2,
        )
        for part in PARTS
    }
    drawn = sorted(without_detours(found))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" width="{WIDTH}" '
        f'height="{tall}" font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{WIDTH}" height="{tall}" fill="{PAPER}"/>',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        f'markerHeight="8" orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{FAINT}"/></marker></defs>',
        _text(WIDTH // 2, 36, "Who imports whom", size=24, bold=True),
        _text(
            WIDTH // 2, 64, "Arrows go down only. One that follows from others is left out.",
            size=16, colour=FAINT,
        ),
        *(_arrow(middle[a], middle[b]) for a, b in drawn),
        *(box for part in PARTS for box in _box(part, *middle[part.name])),
        *_legend(tall - 36),
        "</svg>",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _box(part: Box, x: int, y: int) -> list[str]:
    fill, edge = list(KINDS.values())[KIND_OF.get(part.name, 1)]
    return [
        f'<rect x="{x - BOX_WIDTH // 2}" y="{y - BOX_HEIGHT // 2}" width="{BOX_WIDTH}" '
        f'height="{BOX_HEIGHT}" rx="8" fill="{fill}" stroke="{edge}" stroke-width="2"/>',
        _text(x, y - 5, part.name, size=19, bold=True),
        _text(x, y + 19, part.what, size=15),
    ]


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """From the foot of the upper box to the head of the lower; a bend where columns differ."""
    (x1, y1), (x2, y2) = (start[0], start[1] + BOX_HEIGHT // 2), (end[0], end[1] - BOX_HEIGHT // 2)
    # Ends that meet at one box come from the side of the other, so that they can be told apart.
    side = (x2 > x1) - (x2 < x1)
    x1, x2 = x1 + side * BOX_WIDTH // 4, x2 - side * BOX_WIDTH // 6
    bend = y1 + (ROW_HEIGHT - BOX_HEIGHT) - TIP
    path = f"M{x1},{y1} C{x1},{bend} {x2},{y1} {x2},{bend} L{x2},{y2 - 1}"
    return (
        f'<path d="{path}" fill="none" stroke="{FAINT}" stroke-width="2" marker-end="url(#tip)"/>'
    )


def _legend(y: int) -> list[str]:
    lines = []
    for at, (kind, (fill, edge)) in enumerate(KINDS.items()):
        x = 60 + at * 285
        lines += [
            f'<rect x="{x}" y="{y - 14}" width="26" height="18" rx="4" fill="{fill}" '
            f'stroke="{edge}" stroke-width="2"/>',
            _text(x + 36, y, kind, size=16, anchor="start"),
        ]
    return lines


def _text(
    x: int, y: int, words: str, *, size: int, bold: bool = False, colour: str = INK,
    anchor: str = "middle",
) -> str:  # fmt: skip
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
        f"{escape(words)}</text>"
    )
