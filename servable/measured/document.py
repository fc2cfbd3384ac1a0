"""One HTML page with tabs of sentences, pictures and tables; it fetches nothing."""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jinja2

from model_packaging.beside import write_beside
from model_packaging.private_folder import private_folder
from servable.measured.precision import readable
from servable.verdict import Verdict

PAGE, PICTURES = "report.html", "pictures"
Cell = str | float | tuple[str, float]
"""A text; a number, which is empty where it is NaN; or a text and the number to sort by."""


class Row(NamedTuple):
    cells: Sequence[Cell]
    mark: str = ""
    """CSS class: "chosen", "failed"."""


class ReportTable(NamedTuple):
    title: str
    heads: Sequence[str]
    rows: Sequence[Row]


class Picture(NamedTuple):
    name: str
    alt: str
    png: bytes


class About(NamedTuple):
    sentence: str
    where: str
    """Source of the numbers: what was measured, and when."""
    verdict: Verdict | None = None
    """Shown in color before the sentence."""


@dataclass(frozen=True)
class Tab:
    id: str
    name: str
    pictures: Sequence[Picture] = ()
    texts: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()
    diff: str = ""


def write(
    folder: Path,
    tabs: Sequence[Tab],
    *,
    title: str,
    abouts: Sequence[About],
    relative: bool = False,
) -> Path:
    """Write report.html and, beside it, pictures/*.png. Returns the page.

    `relative`: the numbers were measured on this computer, and rank settings only.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["shown"] = shown
    environment.filters["base64"] = lambda png: base64.b64encode(png).decode()
    template = environment.from_string(Path(__file__).with_name("page.html").read_text("utf-8"))
    text = template.render(title=title, abouts=abouts, relative=relative, tabs=tabs)
    private_folder(folder / PICTURES)
    for picture in (picture for tab in tabs for picture in tab.pictures):
        write_beside(folder / PICTURES / f"{picture.name}.png", picture.png)
    write_beside(folder / PAGE, text.encode())
    return folder / PAGE


def shown(cell: Cell) -> tuple[str, float | None]:
    """Text of a cell, and the number that it is sorted by; None: it is sorted as text."""
    if isinstance(cell, str):
        return cell, None
    if isinstance(cell, tuple):
        return cell
    return ("", None) if math.isnan(cell) else (readable(cell), cell)
