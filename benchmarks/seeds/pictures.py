"""One picture for each experiment, 1200 pixels wide: docs/performance/NAME.png."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.seeds.rows import values
from benchmarks.seeds.settings import ARTICLE
from benchmarks.seeds.tables import SIZES

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "performance"
OURS, OTHERS = "#1f6feb", ("#9a9a9a", "#c4a484", "#d9822b", "#6b8e23", "#5f9ea0")


def draw(result: dict[str, Any], folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    baseline = result["baseline"]
    _save(folder / "baseline.png", lambda axes: _baseline(axes, baseline["requests"]))
    _save(folder / "memory.png", lambda axes: _memory(axes, baseline["memory"]))
    _save(folder / "transport.png", lambda axes: _transport(axes, result["transport"]))
    _save(folder / "settings.png", lambda axes: _settings(axes, result["settings"]))
    _save(folder / "swapping.png", lambda axes: _swapping(axes, result["swapping"]))
    _save(folder / "splitting.png", lambda axes: _splitting(axes, result["splitting"]))


def _save(file: Path, drawn: Callable[[Axes], None]) -> None:
    figure, axes = plt.subplots(figsize=(12, 4.8), dpi=100)
    drawn(axes)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    # No date and no version in it: the same numbers give the same bytes.
    figure.savefig(file, metadata={"Software": None})
    plt.close(figure)


def _bars(
    axes: Axes, groups: list[str], series: dict[str, list[list[float]]], *, log: bool
) -> None:
    """`series`: name -> for each group the repeats' values. Whiskers: smallest to largest."""
    width = 0.8 / len(series)
    for number, (name, found) in enumerate(series.items()):
        middles = [sorted(of)[len(of) // 2] for of in found]
        below = [middle - min(of) for middle, of in zip(middles, found, strict=True)]
        above = [max(of) - middle for middle, of in zip(middles, found, strict=True)]
        places = [group + (number - (len(series) - 1) / 2) * width for group in range(len(groups))]
        colour = OURS if name.startswith(("ours", "chosen")) else OTHERS[number % len(OTHERS)]
        axes.bar(
            places, middles, width * 0.92, label=name, color=colour, yerr=[below, above], capsize=3
        )
        for place, middle, up in zip(places, middles, above, strict=True):
            lift = (middle + up) * 1.04 if log else middle + up
            axes.text(
                place,
                lift,
                f"{middle:,.3g}" if middle < 1000 else f"{middle:,.0f}",
                ha="center",
                va="bottom",
                fontsize=8,
            )
    axes.set_xticks(range(len(groups)), groups)
    if log:
        axes.set_yscale("log")
        axes.margins(y=0.15)
    axes.legend(frameon=False, ncols=min(len(series), 3), loc="upper left", bbox_to_anchor=(0, 1.0))
    axes.set_ylim(top=axes.get_ylim()[1] * (8 if log else 1.3))


def _baseline(axes: Axes, rows: list[dict[str, Any]]) -> None:
    ways = sorted({row["way"] for row in rows})
    series = {
        way: [values(rows, "cpu_ms", way=way, rows=count) for count in (1, 111)] for way in ways
    }
    _bars(axes, ["1 row", "111 rows"], series, log=True)
    axes.set(
        title="CPU time of one request: Flask with Keras inside, and the deployed shape",
        ylabel="CPU-ms (log)",
    )


def _memory(axes: Axes, found: dict[str, Any]) -> None:
    for way, colour in (("Flask", OTHERS[2]), ("ours", OURS)):
        for workers, style in (("1", "--"), ("4", "-")):
            rows = [row for row in found["growing"] if row["way"] == way]
            axes.plot(
                [row["weights_mb"] for row in rows],
                [row["memory_mb"][workers] / 1000 for row in rows],
                style,
                marker="o",
                color=colour,
                label=f"{way}, {workers} worker{'s' if workers != '1' else ''}",
            )
    axes.axhline(
        found["wall_mb"] / 1000,
        color="#cc3333",
        linewidth=1,
        linestyle=":",
        label="the wall of the text",
    )
    axes.set(
        title="Memory of all processes as the model grows",
        xlabel="weights, MB",
        ylabel="memory, GB",
        ylim=(0, None),
    )
    axes.legend(frameon=False)


def _transport(axes: Axes, rows: list[dict[str, Any]]) -> None:
    series = {
        f"{form}, {inside} inside": [
            values(rows, "latency_ms", transport=transport, form=form, rows=count)
            for count in SIZES
        ]
        for transport, inside in (("rest", "REST"), ("grpc", "gRPC"))
        for form in ("json", "npy", "protobuf")
    }
    _bars(axes, list(SIZES.values()), series, log=True)
    axes.set(title="From the client's call to the decoded answer", ylabel="latency, ms (log)")


def _settings(axes: Axes, rows: list[dict[str, Any]]) -> None:
    found = {
        ",".join(map(str, one)): [values(rows, "requests_per_second", article=list(one))]
        for one in ARTICLE
    }
    groups = [
        f"article {name}\nhere {_here(rows, one)}" for name, one in zip(found, ARTICLE, strict=True)
    ]
    _bars(axes, groups, {"ours, requests/s here": [one[0] for one in found.values()]}, log=False)
    axes.set(
        title="Settings as a tuple: workers, model servers, OMP, inter-op, intra-op",
        ylabel="requests/s",
    )


def _here(rows: list[dict[str, Any]], article: tuple[int, ...]) -> str:
    return ",".join(map(str, next(row["here"] for row in rows if row["article"] == list(article))))


def _swapping(axes: Axes, found: dict[str, Any]) -> None:
    loading, together = found["loading"], found["together"]
    groups, cells = [], []
    for phase in dict.fromkeys(row["phase"] for row in loading):
        groups.append(phase.replace(" is ", "\nis ").replace("with ", "with\n"))
        cells.append(values(loading, "p99_ms", phase=phase))
    for way in ("one process", "a process each"):
        for busy in (False, True):
            groups.append(f"{way},\nother {'busy' if busy else 'idle'}")
            cells.append(values(together, "p99_ms", way=way, busy=busy))
    _bars(axes, groups, {"p99": cells}, log=False)
    axes.set(title="What those who ask one model notice of another", ylabel="p99, ms")


def _splitting(axes: Axes, rows: list[dict[str, Any]]) -> None:
    places = list(dict.fromkeys(row["where"] for row in rows))
    series = {
        way: [values(rows, "latency_ms", where=where, way=way) for where in places]
        for way in ("whole", "10 x 50", "chosen")
    }
    _bars(axes, places, series, log=False)
    axes.set(title="500 rows: whole, in ten parts, and as the client chooses", ylabel="latency, ms")
