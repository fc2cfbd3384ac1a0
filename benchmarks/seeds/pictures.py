"""One picture for each part of the page, 1200 pixels wide: docs/performance/NAME.png."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.seeds.article_settings import ARTICLE
from benchmarks.seeds.bars import bars, legend, titled
from benchmarks.seeds.rows import values
from benchmarks.seeds.tables import SIZES
from model_packaging.beside import beside

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "performance"
# The others in greys and browns, ours in blues: darker is the later of the series.
GREY, SAND, BROWN = "#b8b8b8", "#d9b48a", "#8c5a2b"
LIGHT, BLUE, DARK = "#9ecae1", "#4292c6", "#08519c"
RED = "#cc3333"

Drawn = Callable[[Axes], None]


def draw(name: str, found: Any) -> None:
    """One experiment's."""
    for picture, drawn in _drawn(name, found).items():
        _save(FOLDER / f"{picture}.png", drawn)


def clear() -> None:
    """What is not measured again has no picture."""
    for picture in FOLDER.glob("*.png"):
        picture.unlink()


def _drawn(name: str, found: Any) -> dict[str, Drawn]:
    if name == "baseline":
        return {
            "baseline": lambda axes: _baseline(axes, found["requests"]),
            "memory": lambda axes: _memory(axes, found["memory"]),
        }
    of: dict[str, Callable[[Axes, Any], None]] = {
        "transport": _transport,
        "settings": _settings,
        "swapping": _swapping,
        "splitting": _splitting,
    }
    return {name: lambda axes: of[name](axes, found)}


def _save(file: Path, drawn: Drawn) -> None:
    with plt.rc_context({"font.size": 12, "axes.titlesize": 14}):
        figure, axes = plt.subplots(figsize=(12, 5.5), dpi=100)
        drawn(axes)
        axes.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        # No date and no version in it: the same numbers give the same bytes.
        with beside(file) as written:
            figure.savefig(written, format="png", metadata={"Software": None})
        plt.close(figure)


def _baseline(axes: Axes, rows: list[dict[str, Any]]) -> None:
    ways = {
        "Flask, model.predict": "Flask, model.predict",
        "Flask, model.call": "Flask, model.call",
    }
    ways |= {
        "Flask, model.call, npy": "the same, npy",
        "ours, JSON": "ours",
        "ours, npy": "ours, npy",
    }
    series = {
        label: [values(rows, "cpu_ms", way=way, rows=count) for count in (1, 111)]
        for way, label in ways.items()
    }
    bars(axes, ["1 row", "111 rows"], series, (GREY, SAND, BROWN, BLUE, DARK), log=True)
    title = "CPU time of one request: Flask with Keras inside, and the deployed shape"
    titled(axes, title, "CPU-ms (log)")


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
    legend(axes)
    axes.set_ylim(0, None)
    titled(axes, "Memory of all processes as the model grows", "memory, GB", "weights, MB")


def _transport(axes: Axes, rows: list[dict[str, Any]]) -> None:
    series = {
        f"{form}, {inside}": [
            values(rows, "latency_ms", transport=transport, form=form, rows=count)
            for count in SIZES
        ]
        for transport, inside in (("rest", "REST"), ("grpc", "gRPC"))
        for form in ("json", "npy", "protobuf")
    }
    bars(axes, list(SIZES.values()), series, (GREY, SAND, BROWN, LIGHT, BLUE, DARK), log=True)
    titled(
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
    bars(axes, groups, series, (GREY, LIGHT, DARK), log=True)
    title = "Settings as a tuple: workers, model servers, OMP, inter-op, intra-op"
    titled(axes, title, "requests/s (log)")


def _rates(rows: list[dict[str, Any]]) -> list[list[float]]:
    return [values(rows, "requests_per_second", article=list(one)) for one in ARTICLE]


def _swapping(axes: Axes, found: dict[str, Any]) -> None:
    loading, together = found["loading"], found["together"]
    groups, cells = [], []
    for phase in dict.fromkeys(row["phase"] for row in loading):
        words = phase.replace("while ", "while\n").replace("with ", "with\n")
        groups.append(words.replace(" in which ", "\nin which\n").replace(" is ", "\nis "))
        cells.append(values(loading, "p99_ms", phase=phase))
    for way in ("one process", "a process each"):
        for busy in (False, True):
            groups.append(f"{way},\nother model\n{'busy' if busy else 'idle'}")
            cells.append(values(together, "p99_ms", way=way, busy=busy))
    bars(axes, groups, {"p99": cells}, (BLUE,))
    titled(axes, "What those who ask a small model notice of a large one", "p99, ms")


def _splitting(axes: Axes, rows: list[dict[str, Any]]) -> None:
    places = list(dict.fromkeys(row["where"] for row in rows))
    series = {
        way: [values(rows, "latency_ms", where=where, way=way) for where in places]
        for way in ("whole", "10 x 50", "chosen")
    }
    names = {"whole": "whole", "10 x 50": "10 x 50", "chosen": "as the client chooses"}
    shown = {names[way]: found for way, found in series.items()}
    bars(axes, places, shown, (GREY, SAND, DARK), log=True)
    titled(axes, "A batch of 500 rows", "latency, ms (log)")
