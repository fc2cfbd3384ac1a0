"""Content of the page about a search. Two of them are a comparison."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from model_packaging.beside import write_beside
from servable.load.objective import Goal
from servable.load.page import LoadContent
from servable.tune.recommendation import Recommendation
from servable.tune.search.recommended import Effect
from servable.tune.search.trial import Trial

# The file of a search's folder that holds all of it.
RUN = "run.json"


@dataclass(frozen=True, kw_only=True)
class Content(LoadContent):
    """`trials` and what follows are empty for a load test alone."""

    trials: tuple[Trial, ...] = ()
    effects: Mapping[str, tuple[Effect, ...]] = field(default_factory=dict)
    recommendation: Recommendation | None = None
    stopped: str = ""
    goal: Goal = "throughput"
    usd_per_hour: float | None = None
    """Price of the instance; None where no source states it, and on this computer."""

    def write(self, file: Path) -> None:
        write_beside(file, TypeAdapter(Content).dump_json(self))

    @classmethod
    def read(cls, file: Path) -> "Content":
        """Raises OSError, ValueError."""
        return TypeAdapter(Content).validate_json(file.read_bytes())
