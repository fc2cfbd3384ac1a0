"""The articles' experiments, both sides in one run: `make bench-seeds`. Writes result.json and the page.

python -m benchmarks.seeds                     all of them; what was measured before is forgotten
python -m benchmarks.seeds transport settings  these; the others keep what they have, with its time
python -m benchmarks.seeds --docker            against the real image
"""

import argparse
import sys
import time
from pathlib import Path
from types import ModuleType

from benchmarks import page
from benchmarks.command import framed
from benchmarks.machine import machine
from benchmarks.seeds import (
    baseline,
    models,
    results,
    server,
    settings,
    splitting,
    swapping,
    transport,
)
from benchmarks.seeds.bench import Bench
from benchmarks.seeds.progress import Progress
from infra.catalog.images import image
from servable_local.container.launch import LaunchError
from servable_local.container.real_image import check_image

EXPERIMENTS: dict[str, ModuleType] = {
    "baseline": baseline,
    "transport": transport,
    "settings": settings,
    "swapping": swapping,
    "splitting": splitting,
}
IMAGE = image(version="2.20", device="cpu", region="eu-west-1").uri
DOUBLE = "the double"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeds")
    parser.add_argument("experiments", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; none: all")
    parser.add_argument("--docker", action="store_true", help="against the real image")
    parser.add_argument("--image", default=IMAGE, help="with --docker; %(default)s")
    given = parser.parse_args(arguments)
    if unknown := [one for one in given.experiments if one not in EXPERIMENTS]:
        parser.error(f"{', '.join(unknown)}: no such experiment; allowed: {', '.join(EXPERIMENTS)}")
    try:
        if given.docker:
            check_image(given.image)
        return framed(
            lambda folder: _run(folder, given),
            interrupted="interrupted; experiments that were finished are kept",
        )
    except LaunchError as error:
        print(f"bench-seeds: {error}", file=sys.stderr)
        return 1


def _run(folder: Path, given: argparse.Namespace) -> None:
    # Not at the top: matplotlib takes a second that an error of usage need not wait for.
    from benchmarks.seeds import pictures

    before, run = machine(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    chosen = [name for name in EXPERIMENTS if name in (given.experiments or EXPERIMENTS)]
    needed = {model for name in chosen for model in EXPERIMENTS[name].MODELS}
    planned = {"models": models.SECONDS * len(needed)}
    progress = Progress(planned | {name: EXPERIMENTS[name].SECONDS for name in chosen})
    if not given.experiments:
        results.clear()
        pictures.clear()
        page.write()
    progress.begin("models")
    start = server.of_image(given.image) if given.docker else server.double
    bench = Bench(folder, models.made(folder, needed), start, progress)
    for name in chosen:
        progress.begin(name)
        began = time.monotonic()
        found = EXPERIMENTS[name].measured(bench)
        measured = {
            "run": run,
            "model_server": given.image if given.docker else DOUBLE,
            "machine": before,
            "seconds": round(time.monotonic() - began),
            "found": found,
        }
        kept = results.keep(name, measured)
        pictures.draw(name, kept[name]["found"])
        # Now, and not at the end: after Ctrl-C the page says what is kept.
        page.write()
    progress("done")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
