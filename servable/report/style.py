"""How pictures look: one size, one set of colours that colour-blind readers tell apart."""

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from servable.load.precision import Interval

# Okabe and Ito, Color Universal Design, 2008.
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#666666"
OF_RUNS = (BLUE, ORANGE)
# 1200 pixels wide.
INCHES, DOTS_PER_INCH = (12.0, 5.6), 100


def figure(*, inches: tuple[float, float] = INCHES) -> Figure:
    return Figure(figsize=inches, dpi=DOTS_PER_INCH, layout="constrained")


def finish(axes: Axes, *, title: str, x: str, y: str, legend: bool = True) -> None:
    axes.set_title(title, loc="left", fontsize=14, pad=12)
    axes.set_xlabel(x, fontsize=12)
    axes.set_ylabel(y, fontsize=12)
    axes.tick_params(labelsize=11)
    axes.grid(visible=True, alpha=0.25)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if legend and axes.get_legend_handles_labels()[0]:
        # Beside the picture: it never covers a point.
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=11, frameon=False)


def errors(intervals: Sequence[Interval]) -> list[list[float]]:
    """[below, above] each value, as matplotlib's error bars take them."""
    return [
        [max(0.0, one.value - one.low) for one in intervals],
        [max(0.0, one.high - one.value) for one in intervals],
    ]


def from_zero(axes: Axes, *, x: bool = False) -> None:
    """With room above the highest point, so that it is whole."""
    axes.set_ylim(0, 1.06 * axes.get_ylim()[1])
    if x:
        axes.set_xlim(0, 1.06 * axes.get_xlim()[1])


def png(figure: Figure) -> bytes:
    """Without a date inside: the same numbers give the same bytes."""
    into = io.BytesIO()
    figure.savefig(into, format="png", metadata={"Software": None})
    return into.getvalue()


def nothing(why: str, *, title: str) -> bytes:
    """A picture that says why it is empty."""
    empty = figure(inches=(12.0, 2.2))
    axes = empty.subplots()
    axes.axis("off")
    axes.set_title(title, loc="left", fontsize=14)
    axes.text(0.0, 0.6, why, fontsize=12, color=GREY, transform=axes.transAxes)
    return png(empty)
