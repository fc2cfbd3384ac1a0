"""The articles' experiments, both sides in one run: `make bench-seeds`. Writes result.json and the page."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import main
from benchmarks.machine import machine
from benchmarks.seeds import baseline, models, pictures, settings, splitting, swapping, transport
from benchmarks.seeds.report import RESULT
from benchmarks.serving import workload


def measured(folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    before = machine()
    told("making models")
    made = models.made(folder)
    code = {"inference.py": b"from serving.inference import handler\n"}
    archive = workload.pack(folder / "small.tar.gz", made["small"].saved_model, code, ours=True)
    return {
        "machine": before,
        "model_server": "the double",
        "transport": transport.measured(archive, told),
        "splitting": splitting.measured(archive, told),
        "settings": settings.measured(archive, told),
        "baseline": baseline.measured(folder, made, told),
        "swapping": swapping.measured(folder, made, told),
    }


def drawn(folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    # Through JSON, as the page reads it: a tuple is a list there.
    found: dict[str, Any] = json.loads(json.dumps(measured(folder, told)))
    pictures.draw(found)
    return found


if __name__ == "__main__":
    sys.exit(main(drawn, RESULT))
