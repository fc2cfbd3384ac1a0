"""The articles' experiments, both sides in one run: `make bench-seeds`. Writes result.json and the page.

python -m benchmarks.seeds                     all of them; what was measured before is forgotten
python -m benchmarks.seeds transport settings  these; the others keep what they have, with its time
"""

import argparse
import sys
import time
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

from benchmarks import frame
from benchmarks.seeds import baseline, bench, settings, splitting, swapping, transport
from servable_local.container.launch import LaunchError

EXPERIMENTS: dict[str, ModuleType] = {
    "baseline": baseline,
    "transport": transport,
    "settings": settings,
    "swapping": swapping,
    "splitting": splitting,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeds")
    parser.add_argument("experiments", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; none: all")
    chosen: list[str] = parser.parse_args(arguments).experiments
    if unknown := [name for name in chosen if name not in EXPERIMENTS]:
        parser.error(f"{', '.join(unknown)}: no such experiment; allowed: {', '.join(EXPERIMENTS)}")
    try:
        return frame.framed(
            lambda folder: _run(folder, chosen),
            interrupted="interrupted; experiments that were finished are kept",
        )
    except LaunchError as error:
        print(f"bench-seeds: {error}", file=sys.stderr)
        return 1


def _run(folder: Path, given: Collection[str]) -> None:
    before, log = frame.machine(), frame.clock()
    run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    chosen = [name for name in EXPERIMENTS if name in (given or EXPERIMENTS)]
    if not given:
        frame.write("seeds", {})
        frame.write_page()
    log("making models")
    bench.make_models(folder, {model for name in chosen for model in EXPERIMENTS[name].MODELS})
    for name in chosen:
        log(f"{name}: begins")
        began = time.monotonic()
        found = EXPERIMENTS[name].measured(bench.Bench(folder, log))
        experiment = {
            "run": run,
            "model_server": "local container",
            "machine": before,
            "seconds": round(time.monotonic() - began),
            "found": found,
        }
        frame.write("seeds", frame.read("seeds") | {name: experiment})
        # Now, and not at the end: after Ctrl-C the page says what is kept.
        frame.write_page()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
