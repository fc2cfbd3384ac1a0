"""The frame of every benchmark: the computer, a clock, turns and a folder around what it measures.

A benchmark is a package with a page.md, its section of docs/performance.md. Its `__main__` measures, computes
the section's `fields` from result.json, and says what is wanted: `bounds`, drawn as a table, and `met` for
what no table has. `python -m benchmarks.frame` writes the page again, without measuring.
"""

import importlib
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.tables import BOUNDS, Bound
from model_packaging.beside import write_beside

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
# Package -> title of its section, in the page's order.
SECTIONS = {
    "packaging": "Packing",
    "local": "The endpoint on this computer",
    "local_aws": "The local AWS beside others",
    "serving": "The handler",
    "client": "The client",
    "synth": "Synth",
    "load": "The load generator",
    "search": "Searching",
    "tune": "Tuning",
    "seeds": "The articles, side by side",
    "rehearse": "Rehearsed days",
    "replay": "Captured requests replayed",
    "batch": "A table through a transform job",
}
Result = dict[str, Any]
Log = Callable[[str], None]
Measure = Callable[[Path, Log], Any]
Way = TypeVar("Way")


def main(name: str, measure: Measure) -> int:
    """Measure, write result.json and the page, and return the exit code: 1 where a bound is not met."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="servable-benchmark-") as folder:
            write(name, measure(Path(folder), clock()))
    except KeyboardInterrupt:
        print("interrupted; result.json has what was finished before", file=sys.stderr)
        return 130
    write_page()
    print(markdown())
    benchmark, result = _benchmark(name), read(name)
    met = getattr(benchmark, "met", lambda _: True)(result)
    return int(not met or not all(bound.met for bound in _bounds(benchmark, result)))


def clock() -> Log:
    """Return a function that writes lines to standard error, each with the seconds since now."""
    start = time.monotonic()

    def log(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", file=sys.stderr, flush=True)

    return log


def machine() -> Result:
    """Describe the computer. Call it before the run: later the load average is the benchmark's own."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":")[1].strip() for line in cpu if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": models[0] if models else platform.machine(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%d"),
    }


def in_turn(ways: Iterable[Way], repeats: int) -> Iterator[tuple[int, Way]]:
    """Yield (repeat, way): each repeat starts with another way, so that none always comes first."""
    order = [*ways]
    for repeat in range(repeats):
        turn = repeat % len(order)
        for way in order[turn:] + order[:turn]:
            yield repeat, way


def rounds(ways: Mapping[str, Callable[[], Way]], repeats: int, log: Log) -> dict[str, list[Way]]:
    """Measure each way in turn; return what each repeat measured, by way."""
    measured: dict[str, list[Way]] = {way: [] for way in ways}
    for repeat, way in in_turn(ways, repeats):
        measured[way].append(ways[way]())
        log(f"{repeat + 1} of {repeats}: {way}: {measured[way][-1]}")
    return measured


def result_file(name: str) -> Path:
    return ROOT / "benchmarks" / name / "result.json"


def read(name: str) -> Result:
    """Read the last result; empty if the benchmark has not run."""
    file = result_file(name)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def write(name: str, result: Result) -> None:
    write_beside(result_file(name), (json.dumps(result, indent=2) + "\n").encode())


def write_page() -> None:
    write_beside(PAGE, markdown().encode())


def markdown() -> str:
    """The page: one section for each benchmark, from what it measured last."""
    head = Path(__file__).with_name("head.md").read_text(encoding="utf-8")
    return "\n".join([head, *map(section, SECTIONS)])


def section(name: str) -> str:
    """A benchmark's section: its page.md with the fields of its result."""
    result, benchmark = read(name), _benchmark(name)
    command = f"make bench-{name}".replace("_", "-")
    if not result:
        return f"`{command}` has not been run here yet.\n"
    bounds = [*BOUNDS, *(bound.row() for bound in _bounds(benchmark, result))]
    fields = {"bounds": bounds, "computer": ""}
    if machine := result.get("machine"):
        fields["computer"] = (
            f"Computer: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}; "
            f"load average {machine['load_before']} before the run; {machine['date']}."
        )
    fields |= benchmark.fields(result)
    texts = {
        name: "\n".join(field) if isinstance(field, list) else field
        for name, field in fields.items()
    }
    template = result_file(name).with_name("page.md").read_text(encoding="utf-8")
    source = f"Generated from `benchmarks/{name}/result.json`; measured by `{command}`."
    return f"## {SECTIONS[name]}\n\n{source}\n\n{template.format(result=result, **texts)}"


def _benchmark(name: str) -> Any:
    # By its name: a benchmark imports this module.
    return importlib.import_module(f"benchmarks.{name}.__main__")


def _bounds(benchmark: Any, result: Result) -> list[Bound]:
    return [*getattr(benchmark, "bounds", lambda _: ())(result)]


if __name__ == "__main__":
    write_page()
