"""docs/performance.md: one section for each benchmark, from what it measured last."""

from pathlib import Path
from types import ModuleType

from benchmarks.client import report as client
from benchmarks.load import report as load
from benchmarks.local import report as local
from benchmarks.packaging import report as packaging
from benchmarks.rehearse import report as rehearse
from benchmarks.replay import report as replay
from benchmarks.search import report as search
from benchmarks.seeds import report as seeds
from benchmarks.serving import report as serving
from benchmarks.synth import report as synth
from benchmarks.tune import report as tune
from model_packaging.beside import beside

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
SECTIONS = (packaging, local, serving, client, synth, load, search, tune, seeds, rehearse, replay)


HEAD = """\
# How fast it is

For whoever asks what packing, the handler, the client and the local tools cost. Each section says what was
measured, on which computer and when, and which target of make measures it again. Numbers of the local
container (a program that answers as SageMaker's container does) compare settings; they do not say how fast an
instance in AWS is.
"""


def markdown() -> str:
    return "\n".join([HEAD, *(_section(report) for report in SECTIONS)])


def _section(report: ModuleType) -> str:
    if report.RESULT.exists():
        return str(report.section())
    name = report.RESULT.parent.name
    return f"`make bench-{name}` has not been run here yet.\n"


def write() -> None:
    with beside(PAGE) as file:
        file.write(markdown().encode())
