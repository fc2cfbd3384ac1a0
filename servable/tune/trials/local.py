"""Trials on this machine: the container's double with other settings."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from model_packaging.private_folder import private_folder
from servable.load.bodies import Body
from servable.load.load import Reached
from servable.load.load_target import container
from servable.load.measurement import Asked
from servable.load.pace import Pace
from servable.serve.container import serve_locally
from servable.serve.serve import prepared
from servable.tune.machine_space import Machines
from servable.tune.objective_value import Goal
from servable.tune.process_priority import yielding
from servable.tune.search.space import Point
from servable.tune.trials.trials import NotServedError, Trials
from servable_local.container.launch import LaunchError


class LocalTrials(Trials):
    trial_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=4.0)
    curve_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=6.0)

    def __init__(
        self,
        machines: Machines,
        bodies: Sequence[Body],
        asked: Asked,
        folder: Path,
        *,
        goal: Goal = "throughput",
    ) -> None:
        super().__init__(machines, bodies, folder, goal=goal)
        one = machines.kinds[machines.today]
        self._archive = prepared(one.loaded, variant=one.placement.name).archive
        self._asked = asked

    @contextmanager
    def reached(self, point: Point) -> Iterator[Reached]:
        one = self.machines.of(point)
        served = prepared(one.at(point), variant=one.placement.name, archive=self._archive)
        private_folder(self._folder)
        try:
            with serve_locally(served, port=0, log=self._folder / "containers.log") as process:
                yielding(process.pid, entirely=True)
                yield Reached(target=container(process.url), asked=self._asked, pid=process.pid)
        except LaunchError as error:
            raise NotServedError(str(error)) from None
