"""One picture for each part of the page, 1200 pixels wide: docs/performance/NAME.png."""

import math
import textwrap
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.seeds.parts import PARTS, Grid, PagePart
from model_packaging.beside import beside

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "performance"
GROUP_CHARACTERS = 14
# The others in greys and browns, ours in blues: darker is the later of the series. By their number.
GREY, SAND, BROWN = "#b8b8b8", "#d9b48a", "#8c5a2b"
LIGHT, BLUE, DARK = "#9ecae1", "#4292c6", "#08519c"
COLOURS = {
    2: (LIGHT, DARK),
    3: (GREY, SAND, DARK),
    4: (SAND, BROWN, LIGHT, DARK),
    5: (GREY, SAND, BROWN, BLUE, DARK),
    6: (GREY, SAND, BROWN, LIGHT, BLUE, DARK),
}


def draw(name: str, found: Any) -> None:
    """One experiment's."""
    for picture, part in PARTS[name].items():
        _save(FOLDER / f"{picture}.png", part, part.grid(found))


def clear() -> None:
    """What is not measured again has no picture."""
    for parts in PARTS.values():
        for picture in parts:
            (FOLDER / f"{picture}.png").unlink(missing_ok=True)


def _save(file: Path, part: PagePart, grid: Grid) -> None:
    with plt.rc_context({"font.size": 12, "axes.titlesize": 14}):
        figure, axes = plt.subplots(figsize=(12, 5.5), dpi=100)
        _bars(axes, grid)
        # Room for the legend between title and picture, where no bar is so high.
        axes.set_title(part.picture_title, pad=32, loc="left")
        axes.set_ylabel(part.unit)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            borderaxespad=0.2,
            frameon=False,
            ncols=6,
            fontsize=10,
            columnspacing=1.2,
            handlelength=1.2,
        )
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        # No date and no version in it: the same numbers give the same bytes.
        with beside(file) as written:
            figure.savefig(written, format="png", metadata={"Software": None})
        plt.close(figure)


def _bars(axes: Axes, grid: Grid) -> None:
    """Bars in groups with their numbers above. Whiskers: smallest to largest of the repeats."""
    width = 0.84 / len(grid.series)
    colours = COLOURS[len(grid.series)]
    for number, ((name, found), colour) in enumerate(
        zip(grid.series.items(), colours, strict=True)
    ):
        middles = [median(of) for of in found]
        below = [middle - min(of) for middle, of in zip(middles, found, strict=True)]
        above = [max(of) - middle for middle, of in zip(middles, found, strict=True)]
        places = [at + (number - (len(grid.series) - 1) / 2) * width for at in range(len(found))]
        axes.bar(
            places, middles, width * 0.94, label=name, color=colour, yerr=[below, above], capsize=2
        )
        for place, middle, up in zip(places, middles, above, strict=True):
            label = f"{middle:,.0f}" if middle >= 100 else f"{middle:.3g}"
            axes.annotate(
                label,
                (place, middle + up),
                (0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=9,
            )
    names = ["\n".join(textwrap.wrap(group, GROUP_CHARACTERS)) for group in grid.groups]
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(axis="x", labelsize=10)
    axes.set_yscale("log")
    lowest = min(min(of) for found in grid.series.values() for of in found)
    axes.set_ylim(10 ** math.floor(math.log10(lowest)), axes.get_ylim()[1] * 1.3)
