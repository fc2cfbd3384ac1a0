"""Bars in groups, with whiskers and their numbers above; a legend between title and picture."""

import math
from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes


def bars(
    axes: Axes,
    groups: list[str],
    series: dict[str, list[list[float]]],
    colours: Sequence[str],
    *,
    log: bool = False,
) -> None:
    """`series`: name -> for each group the repeats' values. Whiskers: smallest to largest."""
    width = 0.84 / len(series)
    for number, ((name, found), colour) in enumerate(zip(series.items(), colours, strict=True)):
        middles = [median(of) for of in found]
        below = [middle - min(of) for middle, of in zip(middles, found, strict=True)]
        above = [max(of) - middle for middle, of in zip(middles, found, strict=True)]
        places = [group + (number - (len(series) - 1) / 2) * width for group in range(len(groups))]
        axes.bar(
            places, middles, width * 0.94, label=name, color=colour, yerr=[below, above], capsize=3
        )
        for place, middle, up in zip(places, middles, above, strict=True):
            label = f"{middle:,.0f}" if middle >= 100 else f"{middle:.3g}"
            axes.annotate(
                label,
                (place, middle + up),
                (0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=10,
            )
    axes.set_xticks(range(len(groups)), groups)
    if log:
        axes.set_yscale("log")
    if len(series) > 1:
        legend(axes)
    top = axes.get_ylim()[1]
    lowest = min(min(of) for found in series.values() for of in found)
    axes.set_ylim(10 ** math.floor(math.log10(lowest)) if log else 0, top * (1.3 if log else 1.06))


def legend(axes: Axes) -> None:
    """Below the title: no bar is so high."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        borderaxespad=0.2,
        frameon=False,
        ncols=6,
        fontsize=11,
        columnspacing=1.4,
        handlelength=1.4,
    )


def titled(axes: Axes, title: str, ylabel: str, xlabel: str = "") -> None:
    # Room for the legend between title and picture.
    axes.set_title(title, pad=32, loc="left")
    axes.set_ylabel(ylabel)
    axes.set_xlabel(xlabel)
