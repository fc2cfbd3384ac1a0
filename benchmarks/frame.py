"""Runs a benchmark, and writes its result file and its section of docs/performance.md.

A benchmark is a module with TITLE, TEXT, BOUNDS, and CLAIMS (whether it only tests others'
claims), and a function `measure(folder, log)` that returns a `Result`. A bound is a ratio of two
numbers of the same run, so that it also applies to other computers; the median of the repeats has
to be within it.
"""

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import TypedDict, TypeVar

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
# In the order of the page.
NAMES = ("packaging", "serving", "client", "synth", "load", "search", "batch", "articles")
HEAD = """\
# Performance

See what packing, the handler, the client, and the local tools cost. Each section names the target of make
that measures it again and writes this page; don't edit it. A cell is the median of the repeats, with the
lowest and the highest in parentheses. A ratio compares two numbers of the same repeat, and its bound leaves
room for other computers. The local container is Python: use its numbers to compare settings, not to predict
an instance.
"""
Log = Callable[[str], None]
Spread = list[float]
"""Median, lowest, and highest; or a single value that wasn't repeated."""
NO_BOUND = (0.0, float("inf"))
Bounds = Mapping[str, tuple[float, float]]
"""The lowest and highest accepted median of each ratio."""
Way = TypeVar("Way")


class Result(TypedDict):
    """What a benchmark measured: rows of spreads by column, and ratios by label."""

    table: dict[str, dict[str, Spread]]
    ratios: dict[str, Spread]


def main(name: str) -> int:
    """Run a benchmark and write its result and the page; return 1 if a bound isn't met."""
    benchmark, computer = load_benchmark(name), describe_computer()
    with tempfile.TemporaryDirectory(prefix="servable-benchmark-") as folder:
        result: Result = benchmark.measure(Path(folder), create_timed_log())
    text = json.dumps({"computer": computer, **result}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    write_page()
    print(format_section(name))
    met = (is_met(benchmark, *ratio) for ratio in result["ratios"].items())
    return int(not benchmark.CLAIMS and not all(met))


def load_benchmark(name: str) -> ModuleType:
    """Import a benchmark by its name, because it imports this module."""
    return import_module(f"benchmarks.{name}")


def create_timed_log() -> Log:
    """Return a function that writes lines to standard error, each with the seconds since now."""
    start = time.monotonic()

    def log(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", file=sys.stderr, flush=True)

    return log


def describe_computer() -> str:
    """Describe the computer. Call it before the run, which causes a load average of its own."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":")[1].strip() for line in cpu if line.startswith("model name")]
    return (
        f"{os.cpu_count()} cores, {models[0] if models else platform.machine()}, "
        f"Python {platform.python_version()}; load average {os.getloadavg()[0]:.2f} before the run; "
        f"{time.strftime('%Y-%m-%d')}"
    )


def take_turns(ways: Iterable[Way], repeats: int) -> Iterator[Way]:
    """Yield every way in each repeat, starting each time with a different one. No way always comes first."""
    order = [*ways]
    for repeat in range(repeats):
        turn = repeat % len(order)
        yield from order[turn:] + order[:turn]


def measure_in_turn(
    ways: Mapping[str, Callable[[], Way]], repeats: int, log: Log
) -> dict[str, list[Way]]:
    """Measure each way in turn; return the measurements of each way."""
    measured: dict[str, list[Way]] = {way: [] for way in ways}
    for way in take_turns(ways, repeats):
        measured[way].append(ways[way]())
        log(f"{way}: {measured[way][-1]}")
    return measured


def compute_spread(values: Sequence[float]) -> Spread:
    """Summarize repeats, rounded to four digits."""
    several = (median(values), min(values), max(values)) if len(values) > 1 else values
    return [float(f"{value:.4g}") for value in several]


def divide(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Summarize the ratios of two ways, each measured in the same repeat."""
    return compute_spread([upper / lower for upper, lower in zip(above, below, strict=True)])


def is_met(benchmark: ModuleType, label: str, ratio: Spread) -> bool:
    """Return whether a ratio's median, or every repeat of a claim, is within its bound."""
    bounds: Bounds = benchmark.BOUNDS
    least, most = bounds.get(label, NO_BOUND)
    return all(least <= value <= most for value in ratio[: None if benchmark.CLAIMS else 1])


def write_page() -> None:
    """Write docs/performance.md from the last result of each benchmark."""
    PAGE.write_text("\n".join([HEAD, *map(format_section, NAMES)]), encoding="utf-8")


def format_section(name: str) -> str:
    """Return a benchmark's section of the page."""
    benchmark, file = load_benchmark(name), RESULTS / f"{name}.json"
    head = f"## {benchmark.TITLE}\n\n{benchmark.TEXT}"
    if not file.exists():
        return f"{head}\n`make bench-{name}` hasn't been run.\n"
    result = json.loads(file.read_text(encoding="utf-8"))
    lines = [head, f"`make bench-{name}`: {result['computer']}.\n"]
    if result["table"]:
        columns = list(dict.fromkeys(key for row in result["table"].values() for key in row))
        lines += [format_row("", *columns), f"|---|{'---:|' * len(columns)}"]
        for label, row in result["table"].items():
            cells = (format_spread(row[column]) if column in row else "" for column in columns)
            lines.append(format_row(label, *cells))
        lines.append("")
    words = ("shows", "doesn't show") if benchmark.CLAIMS else ("met", "**not met**")
    lines += [format_row("ratio", "measured", "bound", ""), "|---|---:|---:|---|"]
    for label, ratio in result["ratios"].items():
        verdict = words[not is_met(benchmark, label, ratio)]
        bound = format_bound(*benchmark.BOUNDS.get(label, NO_BOUND))
        lines.append(format_row(label, format_spread(ratio, "x"), bound, verdict if bound else ""))
    return "\n".join(lines) + "\n"


def format_row(*cells: str) -> str:
    """Return a row of a Markdown table."""
    return f"|{'|'.join(cells)}|"


def format_spread(values: Spread, unit: str = "") -> str:
    """Format a spread with three significant digits: 12x (10-15)."""
    middle, *ends = (f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" for value in values)
    return f"{middle}{unit}" + (f" ({ends[0]}-{ends[1]})" if ends else "")


def format_bound(least: float, most: float) -> str:
    """Format a bound; return an empty text if there is none."""
    if least and most < float("inf"):
        return f"{least:g}x-{most:g}x"
    return f"≥{least:.3g}x" if least else f"≤{most:g}x" * (most < float("inf"))
