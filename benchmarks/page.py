"""docs/performance.md: one section for each benchmark, from what it measured last."""

from pathlib import Path

from benchmarks.client import report as client
from benchmarks.local import report as local
from benchmarks.packaging import report as packaging
from benchmarks.serving import report as serving
from model_packaging.beside import beside

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
SECTIONS = (packaging, local, serving, client)


def markdown() -> str:
    # A section for what has been measured.
    measured = [report.section() for report in SECTIONS if report.RESULT.exists()]
    return "\n".join(["# How fast it is", "", *measured])


def write() -> None:
    with beside(PAGE) as file:
        file.write(markdown().encode())
