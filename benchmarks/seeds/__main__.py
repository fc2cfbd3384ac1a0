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

from benchmarks import page
from benchmarks.command import clock, framed, machine
from benchmarks.seeds import baseline, models, results, settings, splitting, swapping, transport
from benchmarks.seeds.bench import Bench
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
    if unknown := [one for one in chosen if one not in EXPERIMENTS]:
        parser.error(f"{', '.join(unknown)}: no such experiment; allowed: {', '.join(EXPERIMENTS)}")
    try:
        return framed(
            lambda folder: _run(folder, chosen),
            interrupted="interrupted; experiments that were finished are kept",
        )
    except LaunchError as error:
        print(f"bench-seeds: {error}", file=sys.stderr)
        return 1


def _run(folder: Path, given: Collection[str]) -> None:
    # Not at the top: matplotlib takes a second that an error of usage need not wait for.
    from benchmarks.seeds import pictures

    before, run, told = machine(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), clock()
    chosen = [name for name in EXPERIMENTS if name in (given or EXPERIMENTS)]
    if not given:
        results.clear()
        pictures.clear()
        page.write()
    told("making models")
    needed = {model for name in chosen for model in EXPERIMENTS[name].MODELS}
    made = models.made(folder, needed)
    for name in chosen:
        told(f"{name}: begins")
        began = time.monotonic()
        bench = Bench(folder, made, lambda text, name=name: told(f"{name}: {text}"))  # type: ignore[misc]
        found = EXPERIMENTS[name].measured(bench)
        measured = {
            "run": run,
            "model_server": "local container",
            "machine": before,
            "seconds": round(time.monotonic() - began),
            "found": found,
        }
        kept = results.keep(name, measured)
        pictures.draw(name, kept[name]["found"])
        # Now, and not at the end: after Ctrl-C the page says what is kept.
        page.write()
    told("done")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
