"""Draw charts, and write one HTML page with tabs of sentences, tables, and charts.

The page fetches nothing. All charts have one size, and one set of colors that color-blind readers
can distinguish.
"""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jinja2
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter

from model_packaging.beside import create_private_folder, write_atomically
from servable.measured.precision import Interval, format_number
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
    """Write report.html and pictures/*.png next to it, and return the page's path.

    `relative`: the numbers were measured on this computer, and are valid only for ranking
    settings.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["shown"] = format_cell
    environment.filters["base64"] = lambda png: base64.b64encode(png).decode()
    template = environment.from_string(Path(__file__).with_name("page.html").read_text("utf-8"))
    text = template.render(title=title, abouts=abouts, relative=relative, tabs=tabs)
    create_private_folder(folder / PICTURES)
    for picture in (picture for tab in tabs for picture in tab.pictures):
        write_atomically(folder / PICTURES / f"{picture.name}.png", picture.png)
    write_atomically(folder / PAGE, text.encode())
    return folder / PAGE


def format_cell(cell: Cell) -> tuple[str, float | None]:
    """Return a cell's text and the number that it is sorted by.

    The number is None if the cell is sorted as text.
    """
    if isinstance(cell, str):
        return cell, None
    if isinstance(cell, tuple):
        return cell
    return ("", None) if math.isnan(cell) else (format_number(cell), cell)


# Okabe and Ito, Color Universal Design, 2008.
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#666666"
OF_RUNS = (BLUE, ORANGE)
# 1200 pixels wide, with large text, because a phone shows it half as wide.
WIDE, DOTS_PER_INCH = 8.0, 150
# As people write them: 75,000 and not 7.5e+04.
NUMBERS = "{x:,.10g}"


def create_figure(*, high: float = 4.6) -> Figure:
    """Return an empty figure that is `high` inches high."""
    return Figure(figsize=(WIDE, high), dpi=DOTS_PER_INCH, layout="constrained")


def format_axes(
    axes: Axes, *, title: str = "", x: str = "", y: str, zero: str = "", legend: bool = True
) -> None:
    """Label and style the axes.

    `zero`: the axes that begin at 0, "y" or "xy", with room above the highest point.
    """
    axes.set_title(title, loc="left", fontsize=12, pad=10)
    axes.set_xlabel(x, fontsize=10)
    axes.set_ylabel(y, fontsize=10)
    axes.tick_params(labelsize=9.5)
    for axis in (axes.xaxis, axes.yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_formatter(NUMBERS)
    axes.grid(visible=True, alpha=0.25)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if legend and axes.get_legend_handles_labels()[0]:
        # Below the chart, where it covers no point.
        below = -0.2 if x else -0.08
        axes.legend(
            loc="upper left", bbox_to_anchor=(0.0, below), fontsize=9.5, ncols=2, frameon=False
        )
    for name in zero:
        axes.set(**{f"{name}lim": (0, 1.06 * getattr(axes, f"get_{name}lim")()[1])})


def set_logarithmic(axes: Axes, name: Literal["x", "y"]) -> None:
    """Make the axis "x" or "y" logarithmic, with plain numbers as ticks at 1, 2, and 5."""
    axes.set(**{f"{name}scale": "log"})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_formatter(NUMBERS)
    axis.set_minor_locator(LogLocator(base=10, subs=(2.0, 5.0)))
    axis.set_minor_formatter(NUMBERS)
    axes.tick_params(axis=name, which="minor", labelsize=9.5)


def draw_intervals(axes: Axes, x: Sequence[float], y: Sequence[Interval], **look: Any) -> None:
    """Draw each value with its interval as an error bar."""
    below = [max(0.0, interval.value - interval.low) for interval in y]
    above = [max(0.0, interval.high - interval.value) for interval in y]
    axes.errorbar(x, [interval.value for interval in y], yerr=[below, above], capsize=3, **look)


def render_png(figure: Figure) -> bytes:
    """Return the figure as PNG bytes. They contain no date: the same numbers give the same bytes."""
    into = io.BytesIO()
    figure.savefig(into, format="png", metadata={"Software": None})
    return into.getvalue()


def draw_empty_chart(why: str, *, title: str) -> bytes:
    """Return a chart, as PNG bytes, that contains only the reason why it is empty."""
    empty = create_figure(high=1.4)
    axes = empty.subplots()
    axes.axis("off")
    axes.set_title(title, loc="left", fontsize=12)
    axes.text(0.0, 0.6, why, fontsize=10, color=GREY, transform=axes.transAxes)
    return render_png(empty)
