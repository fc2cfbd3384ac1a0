"""Content of the page about a load curve."""

from dataclasses import dataclass

from servable.load.knee import Knee
from servable.load.measurement import LoadCurve, LoadStep


@dataclass(frozen=True, kw_only=True)
class LoadContent:
    """Content of the page about one run."""

    label: str
    curve: LoadCurve
    """Curve of a load test, or of the chosen settings."""
    knee: Knee | None

    @property
    def at_knee(self) -> LoadStep | None:
        """The step nearest below the knee; without one, the first that was answered."""
        steps = [step for step in self.curve.valid if step.latencies.count]
        if not steps or self.knee is None:
            return steps[0] if steps else None
        most = self.knee.load.value
        below = (step for step in steps if step.load <= most)
        return max(below, key=lambda step: step.load, default=steps[0])
