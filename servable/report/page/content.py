"""What a report shows of one run. Two of them are a comparison."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from model_packaging.beside import beside
from servable.load.knee import Knee
from servable.load.measurement import LoadCurve
from servable.tune.objective import Goal
from servable.tune.recommendation import Recommendation
from servable.tune.search.recommended import Effect
from servable.tune.search.trial import Trial

# The file of a search's folder that holds all of it.
RUN = "run.json"


@dataclass(frozen=True, kw_only=True)
class Content:
    """`trials` and what follows are empty for a load test alone."""

    label: str
    curve: LoadCurve
    """Of a load test, or of the settings that were chosen."""
    knee: Knee | None
    trials: tuple[Trial, ...] = ()
    effects: Mapping[str, tuple[Effect, ...]] = field(default_factory=dict)
    recommendation: Recommendation | None = None
    stopped: str = ""
    goal: Goal = "throughput"
    usd_per_hour: float | None = None
    """Of the instance; None where no source states it, and on this machine."""

    def write(self, file: Path) -> None:
        with beside(file) as to:
            to.write(TypeAdapter(Content).dump_json(self))

    @classmethod
    def read(cls, file: Path) -> "Content":
        """Raises OSError, ValueError."""
        return TypeAdapter(Content).validate_json(file.read_bytes())
