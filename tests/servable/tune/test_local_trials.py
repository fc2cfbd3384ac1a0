"""What `servable tune` measures: a container of this computer, with a point's settings."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from infra.parameters.loading import ValidFile, load
from infra.parameters.placement import list_placements
from servable.load.bodies import load_body_file
from servable.load.objective import Objective
from servable.measured.measurement import CURVE, LoadCurve, Pace
from servable.tune.run import Run, TuneOptions, TuneProgress
from servable.tune.trials import LocalTrials
from tests.conftest import RANKER, VALID

pytestmark = pytest.mark.long
# On a busy computer the first answer took longer than a step of one second.
QUICK = Pace(warm_up_seconds=0.2, least_seconds=3.0, most_seconds=3.0)
EASY = Objective(most_ms=60_000.0)


def test_every_request_of_a_trial_is_answered(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "environments" / "prod.toml").write_text(VALID)
    (loaded,) = load(project, project / "environments")
    assert isinstance(loaded, ValidFile)
    (placement,) = list_placements(loaded.environment)
    body = RANKER.parent / "golden" / "request-rows.json"
    options = TuneOptions(
        bodies=load_body_file(body), body_names=(body.name,), only=("inter_op_threads",)
    )
    monkeypatch.chdir(project)
    monkeypatch.setattr(LocalTrials, "trial_pace", QUICK)
    # Other tests run meanwhile.
    monkeypatch.setattr(LocalTrials, "measure_busy_share", lambda _: 0.0)
    silent = Mock(spec=TuneProgress)
    with LocalTrials(Run(loaded, placement, options, silent)) as trials:
        # At one user, with another number of threads than today's.
        space = trials.machines.space
        every = [space.build_point(number) for number in range(len(space.keys))]
        (point,) = [one for one in every if one["inter_op_threads"] == 1]
        trials.objective = EASY
        measured = trials.measure_trial(point, 1.0)
        assert measured.value == measured.about["rps"]["value"] > 0
        curve = LoadCurve.read(trials.run.folder / measured.about["curve"] / CURVE)
        assert [step.errors for step in curve.steps] == [{}] * len(curve.steps)
        del trials.objective
        assert 0 < trials.objective.most_ms < EASY.most_ms
