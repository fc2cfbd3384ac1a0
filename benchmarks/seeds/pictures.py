"""One picture for each part of the page, 1200 pixels wide: docs/performance/NAME.png."""

import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.seeds.report import PARTS, SIZES
from benchmarks.seeds.results import ARTICLE, values
from model_packaging.beside import beside

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "performance"
# The others in greys and browns, ours in blues: darker is the later of the series.
GREY, SAND, BROWN = "#b8b8b8", "#d9b48a", "#8c5a2b"
LIGHT, BLUE, DARK = "#9ecae1", "#4292c6", "#08519c"
RED = "#cc3333"

Drawn = Callable[[Axes, Any], None]


def draw(name: str, found: Any) -> None:
    """One experiment's."""
    for part in PARTS[name]:
        _save(FOLDER / f"{part.picture}.png", DRAWN[part.picture], part.of(found))


def clear() -> None:
    """What is not measured again has no picture."""
    for picture in DRAWN:
        (FOLDER / f"{picture}.png").unlink(missing_ok=True)


def _save(file: Path, drawn: Drawn, found: Any) -> None:
    with plt.rc_context({"font.size": 12, "axes.titlesize": 14}):
        figure, axes = plt.subplots(figsize=(12, 5.5), dpi=100)
        drawn(axes, found)
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        # No date and no version in it: the same numbers give the same bytes.
        with beside(file) as written:
            figure.savefig(written, format="png", metadata={"Software": None})
        plt.close(figure)


def _baseline(axes: Axes, found: dict[str, Any]) -> None:
    ways = {
        "Flask, model.predict": "Flask, model.predict",
        "Flask, model.call": "Flask, model.call",
        "Flask, model.call, npy": "the same, npy",
        "ours, JSON": "ours",
        "ours, npy": "ours, npy",
    }
    series = {
        label: [values(found["requests"], "cpu_ms", way=way, rows=count) for count in (1, 111)]
        for way, label in ways.items()
    }
    _bars(axes, ["1 row", "111 rows"], series, (GREY, SAND, BROWN, BLUE, DARK), log=True)
    title = "CPU time of one request: Flask with Keras inside, and the deployed shape"
    _titled(axes, title, "CPU-ms (log)")


def _memory(axes: Axes, found: dict[str, Any]) -> None:
    for way, colour in (("Flask", BROWN), ("ours", BLUE)):
        for workers, style in (("1", "--"), ("4", "-")):
            rows = [row for row in found["growing"] if row["way"] == way]
            label = f"{way}, {workers} worker{'s' if workers != '1' else ''}"
            weights = [row["weights_mb"] for row in rows]
            memory = [row["memory_mb"][workers] / 1000 for row in rows]
            axes.plot(weights, memory, style, marker="o", color=colour, label=label, linewidth=2)
    wall = found["wall_mb"] / 1000
    axes.axhline(wall, color=RED, linewidth=1, linestyle=":", label=f"the wall, {wall:.1f} GB")
    _legend(axes)
    axes.set_ylim(0, None)
    _titled(axes, "Memory of all processes as the model grows", "memory, GB", "weights, MB")


def _transport(axes: Axes, rows: list[dict[str, Any]]) -> None:
    series = {
        f"{form}, {inside}": [
            values(rows, "latency_ms", transport=transport, form=form, rows=count)
            for count in SIZES
        ]
        for transport, inside in (("rest", "REST"), ("grpc", "gRPC"))
        for form in ("json", "npy", "protobuf")
    }
    _bars(axes, list(SIZES.values()), series, (GREY, SAND, BROWN, LIGHT, BLUE, DARK), log=True)
    _titled(
        axes,
        "From the client's call to the decoded answer: the body, and what is spoken inside",
        "latency, ms (log)",
    )


def _settings(axes: Axes, found: dict[str, Any]) -> None:
    here, simulated = found["here"], found["simulated"]
    groups = []
    for one in ARTICLE:
        scaled = next(row["here"] for row in here if row["article"] == list(one))
        groups.append(f"{','.join(map(str, one))}\nhere {','.join(map(str, scaled))}")
    series = {
        "article, 36 cores": [[rate] for rate in ARTICLE.values()],
        f"simulated, {simulated['cores']} cores": _rates(simulated["rows"]),
        "measured here": _rates(here),
    }
    _bars(axes, groups, series, (GREY, LIGHT, DARK), log=True)
    title = "Settings as a tuple: workers, model servers, OMP, inter-op, intra-op"
    _titled(axes, title, "requests/s (log)")


def _rates(rows: list[dict[str, Any]]) -> list[list[float]]:
    return [values(rows, "requests_per_second", article=list(one)) for one in ARTICLE]


def _swapping(axes: Axes, found: dict[str, Any]) -> None:
    loading, together = found["loading"], found["together"]
    groups, cells = [], []
    for phase in dict.fromkeys(row["phase"] for row in loading):
        groups.append("\n".join(textwrap.wrap(phase, width=12)))
        cells.append(values(loading, "p99_ms", phase=phase))
    for way in ("one process", "a process each"):
        for busy in (False, True):
            words = f"{way}, the other {'busy' if busy else 'idle'}"
            groups.append("\n".join(textwrap.wrap(words, width=12)))
            cells.append(values(together, "p99_ms", way=way, busy=busy))
    _bars(axes, groups, {"p99": cells}, (BLUE,), log=True)
    axes.tick_params(axis="x", labelsize=10)
    _titled(axes, "What those who ask a small model notice of a large one", "p99, ms (log)")


def _splitting(axes: Axes, rows: list[dict[str, Any]]) -> None:
    places = list(dict.fromkeys(row["where"] for row in rows))
    series = {
        way: [values(rows, "latency_ms", where=where, way=way) for where in places]
        for way in ("whole", "10 x 50", "chosen")
    }
    names = {"whole": "whole", "10 x 50": "10 x 50", "chosen": "as the client chooses"}
    shown = {names[way]: found for way, found in series.items()}
    _bars(axes, places, shown, (GREY, SAND, DARK), log=True)
    _titled(axes, "A batch of 500 rows", "latency, ms (log)")


def _bars(
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
        _legend(axes)
    top = axes.get_ylim()[1]
    lowest = min(min(of) for found in series.values() for of in found)
    axes.set_ylim(10 ** math.floor(math.log10(lowest)) if log else 0, top * (1.3 if log else 1.06))


def _legend(axes: Axes) -> None:
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


def _titled(axes: Axes, title: str, ylabel: str, xlabel: str = "") -> None:
    # Room for the legend between title and picture.
    axes.set_title(title, pad=32, loc="left")
    axes.set_ylabel(ylabel)
    axes.set_xlabel(xlabel)


DRAWN: dict[str, Drawn] = {
    "baseline": _baseline,
    "memory": _memory,
    "transport": _transport,
    "settings": _settings,
    "swapping": _swapping,
    "splitting": _splitting,
}
