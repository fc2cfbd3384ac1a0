"""result.json: what was measured, each experiment with its run, time and machine."""

import json
from pathlib import Path
from typing import Any

from benchmarks.result import write

RESULT = Path(__file__).parent / "result.json"
Result = dict[str, Any]


def read() -> Result:
    """Experiment -> {"run", "model_server", "machine", "seconds", "found"}."""
    if not RESULT.exists():
        return {}
    found: Result = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def clear() -> None:
    write(RESULT, {})


def keep(name: str, measured: dict[str, Any]) -> Result:
    """Beside what is there; returns all of it, as it will be read."""
    write(RESULT, read() | {name: measured})
    return read()
